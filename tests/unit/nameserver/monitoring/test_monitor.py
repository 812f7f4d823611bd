"""Claims about health, alerts and their lines in the log."""

from __future__ import annotations

import gc
import logging
import re
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from orbitmq.errors import RemoteRefused
from orbitmq.nameserver.monitoring.alerts import LOST_MS, WINDOW_MS
from orbitmq.nameserver.monitoring.monitor import NameServerMonitor
from orbitmq.nameserver.monitoring.unknown_topics import UnknownTopics
from orbitmq.nameserver.routing.events import Cause, ChangeKind, RouteChange, Trigger
from orbitmq.net.counters import Counters
from orbitmq.net.limits import descriptor_limit
from orbitmq.testing import FakeClock
from orbitmq.wire import headers
from waiting import until

from ..talk import BODY, BROKER, talking


@pytest.mark.real
async def test_health_says_what_there_is():
    async with talking() as talk:
        await talk.ask(BROKER, BODY)
        health, page, ready = (
            orjson.loads(await talk.ask(headers.GetHealth())),
            await talk.get("/healthz"),
            await talk.get("/readyz"),
        )
    assert health["healthy"] is True
    assert (health["brokers"], health["topics"]) == (1, 2)
    assert page[0] == 200
    assert ready == (200, "ready\n")


async def leave_by_a_good_bye(talk):
    leave = headers.UnregisterBroker(broker_name="a", broker_addr="h:1", cluster_name="c", broker_id=0)
    await talk.ask(leave)


async def leave_by_a_broken_connection(talk):
    talk.pool.close_address(talk.name_server.address)


@pytest.mark.real
@pytest.mark.parametrize(
    ("leave", "cause", "rules"),
    [
        (leave_by_a_good_bye, "unregistration", []),
        (leave_by_a_broken_connection, "connection closed", ["RocketmqNameServerBrokerCountDropped"]),
    ],
)
async def test_a_broker_that_vanishes_is_an_alert_and_one_that_says_good_bye_is_none(caplog, leave, cause, rules):
    caplog.set_level(logging.INFO, "orbitmq.nameserver")

    async with talking() as talk:
        await talk.ask(BROKER, BODY)
        await talk.ask(headers.GetHealth())
        await leave(talk)
        await until(lambda: not talk.name_server.service.tables.broker_count)
        health, metrics = (orjson.loads(await talk.ask(headers.GetHealth())), (await talk.get("/metrics"))[1])
    assert health["healthy"] is not rules
    assert [alert["rule"] for alert in health["alerts"]] == rules
    assert f"\nrocketmq_nameserver_vanished_brokers {len(rules)}.0\n" in metrics
    lines = [record for record in caplog.records if record.getMessage().startswith("broker left: c/a:0 at h:1")]
    assert [line.cause for line in lines] == [cause]


@pytest.mark.real
async def test_topics_that_are_asked_for_in_vain_are_named_in_health_and_in_the_alert(caplog):
    moments = iter(range(1_700_000_000_000, 1_800_000_000_000, 1_000))

    async with talking(clock=lambda: next(moments)) as talk:
        for _ in range(100):
            with pytest.raises(RemoteRefused):
                await talk.ask(headers.GetRouteInfo(topic="nowhere"))
        health = orjson.loads(await talk.ask(headers.GetHealth()))
    (missing,) = health["missingTopics"]
    assert (missing["topic"], missing["count"]) == ("nowhere", 100)
    assert missing["remote"].startswith("127.0.0.1:")
    (alert,) = health["alerts"]
    assert alert["rule"] == "RocketmqNameServerRouteQueriesFail"
    assert health["healthy"], "a topic that a client has misspelt makes no NameServer ill"
    assert f"nowhere (100, last by {missing['remote']})" in alert["reason"]
    (line,) = [record for record in caplog.records if hasattr(record, "alert")]
    assert (line.alert, line.levelname) == (alert["rule"], "WARNING")
    assert line.getMessage() == f"alert {alert['rule']}: {alert['reason']}"


def test_route_queries_that_fail_for_another_reason_are_no_health():
    watched = Watched()
    watched.monitor.sample()
    watched.clock.advance(60_000)
    watched.counters.requests[105] = 1_000
    watched.counters.refusals[105, 17] = 500
    watched.counters.refusals[105, 1] = 10
    assert watched.monitor.health()["healthy"]
    watched.counters.refusals[105, 1] = 11
    assert not watched.monitor.health()["healthy"]


def test_a_query_for_a_topic_that_appears_within_a_minute_counts_as_nothing():
    watched, routed = Watched(), set()
    watched.tables.broker_names_of = lambda topic: ["a"] if topic in routed else []
    watched.monitor.sample()
    watched.counters.requests[105] = 222
    watched.counters.refusals[105, 17] = 29
    for _ in range(29):
        watched.unknown.note("made-by-a-send", watched.clock(), "h:2")
    watched.clock.advance(45_000)
    assert watched.monitor.health()["alerts"] == [], "it may still appear"
    routed.add("made-by-a-send")
    for _ in range(20):
        watched.clock.advance(5_000)
        health = watched.monitor.health()
        assert (health["alerts"], health["missingTopics"], health["routeQueryFailures"]) == ([], [], 0)


def test_a_query_for_a_topic_that_does_not_appear_counts_after_a_minute():
    watched = Watched()
    watched.tables.broker_names_of = lambda topic: []
    watched.monitor.sample()
    watched.counters.requests[105] = 222
    watched.counters.refusals[105, 17] = 29
    for _ in range(29):
        watched.unknown.note("misspelt", watched.clock(), "h:2")
    watched.clock.advance(61_000)
    (alert,) = watched.monitor.health()["alerts"]
    assert (alert["severity"], watched.monitor.route_failures) == ("warning", 29)


def test_topics_of_retries_dead_letters_and_traces_are_no_missing_topics_and_no_alert():
    watched = failing(102)
    for topic in ("%RETRY%g", "%DLQ%g", "RMQ_SYS_TRACE_TOPIC") * 34:
        watched.unknown.note(topic, watched.clock(), "h:2")
    health = watched.monitor.health()
    assert (health["missingTopics"], health["alerts"], health["routeQueryFailures"]) == ([], [], 0)
    watched.counters.refusals[105, 17] += 2
    assert watched.monitor.health()["alerts"][0]["reason"] == "2 of 102 route queries failed"


class Watched:
    """A monitor of figures that a test sets."""

    def __init__(self, **options: Any) -> None:
        self.clock = FakeClock()
        self.counters = Counters()
        self.tables: Any = SimpleNamespace(broker_count=3, topic_count=4, broker_names_of=lambda topic: [])
        server: Any = SimpleNamespace(counters=self.counters, connections=[1, 2], address="h:1")
        self.unknown = UnknownTopics()
        self.monitor = NameServerMonitor(
            server,
            self.tables,
            self.unknown,
            is_ready=lambda now_ms: now_ms == self.clock(),
            clock=self.clock,
            **options,
        )

    def move(self, kind: ChangeKind) -> None:
        """Let a broker vanish, or come back."""
        trigger = Trigger(Cause.LEASE_EXPIRED, self.clock())
        change = RouteChange(kind=kind, trigger=trigger, cluster="c", broker_name="a", broker_id=0, address="h:9")
        self.monitor.note(change)


def test_the_health_document_says_everything_under_its_name():
    watched = Watched(warnings=["open"], sections={"shadow": lambda: {"up": True}})
    watched.counters.requests[105] = 10
    watched.counters.refusals[105, 17] = 2 + 12
    watched.counters.refusals[105, 1] = 3
    watched.counters.refusals[103, 1] = 4
    for number in range(12):
        watched.unknown.note(f"t{number}", watched.clock(), "h:2")
    watched.clock.advance(5_000)
    health = watched.monitor.health()
    named = health.pop("missingTopics")
    assert len(named) == 10
    assert health.pop("memory") > 0
    assert health == {
        "fileLimit": descriptor_limit(),
        "memoryLimit": watched.monitor.process_stats.memory_limit,
        "loopLagMs": 0,
        "healthy": True,
        "ready": True,
        "alerts": [],
        "warnings": ["open"],
        "address": "h:1",
        "uptimeMs": 5_000,
        "brokers": 3,
        "topics": 4,
        "connections": 2,
        "routeQueries": 10,
        "routeQueryFailures": 5,
        "shadow": {"up": True},
    }


def test_unknown_topics_of_long_ago_are_not_named():
    watched = Watched()
    watched.unknown.note("old", watched.clock(), "h:2")
    watched.clock.advance(WINDOW_MS + 1)
    assert watched.monitor.health()["missingTopics"] == []


def test_an_alert_is_logged_when_it_begins_and_when_it_ends(caplog):
    caplog.set_level(logging.INFO, "orbitmq.nameserver")
    watched = Watched()
    for kind in (None, ChangeKind.BROKER_LEFT, None, ChangeKind.BROKER_JOINED, None):
        if kind is not None:
            watched.move(kind)
        watched.monitor.sample()
        watched.clock.advance(1_000)
    rule = "RocketmqNameServerBrokerCountDropped"
    begun, over = [message for message in caplog.messages if message.startswith("alert")]
    assert begun.startswith(f"alert {rule}: gone without a good-bye: c/a:0 at h:9 (lease expired, ")
    assert over == f"alert {rule} is over"
    assert watched.monitor.alerts == ()


def test_changes_are_counted_by_kind_and_cause(caplog):
    caplog.set_level(logging.INFO, "orbitmq.nameserver")
    watched = Watched()
    change = RouteChange(
        kind=ChangeKind.BROKER_LEFT, trigger=Trigger(Cause.LEASE_EXPIRED, 1, "h:3"), cluster="c", broker_name="a"
    )
    for _ in range(2):
        watched.monitor.note(change)
    assert watched.monitor.changes == {(ChangeKind.BROKER_LEFT, Cause.LEASE_EXPIRED): 2}
    (line, _) = caplog.records
    assert line.getMessage() == "broker left: c/a; lease expired by h:3"
    assert (vars(line)["kind"], vars(line)["cause"], vars(line)["remote"]) == ("broker left", "lease expired", "h:3")


def failing(count: int) -> Watched:
    """Return a monitor that has seen many queries fail for a minute."""
    watched = Watched()
    watched.monitor.sample()
    watched.clock.advance(60_000)
    watched.counters.requests[105] = watched.counters.refusals[105, 17] = count
    return watched


def test_three_unknown_topics_are_named_in_the_alert():
    watched = failing(100)
    for number in range(5):
        for _ in range(5 - number):
            watched.unknown.note(f"t{number}", watched.clock(), "h:2")
    watched.clock.advance(61_000)
    (alert,) = watched.monitor.health()["alerts"]
    assert alert["reason"] == (
        "100 of 100 route queries failed; "
        "without a route: t0 (5, last by h:2), t1 (4, last by h:2), t2 (3, last by h:2)"
    )


def test_an_alert_about_queries_that_fail_for_other_reasons_names_no_topic():
    (alert,) = failing(100).monitor.health()["alerts"]
    assert alert["reason"] == "100 of 100 route queries failed"


async def test_a_monitor_that_was_started_looks_immediately_and_counts_collections():
    watched = Watched()
    watched.monitor.start()
    try:
        gc.collect()
        assert watched.monitor.process_stats.gc_count > 0
        watched.move(ChangeKind.BROKER_LEFT)
        watched.clock.advance(LOST_MS)
        (alert,) = watched.monitor.health()["alerts"]
    finally:
        watched.monitor.stop()
    assert re.fullmatch(r"gone without a good-bye: c/a:0 at h:9 \(lease expired, [\dT:-]+Z\)", alert["reason"])
    assert alert["severity"] == "warning"
    assert alert["subjects"] == ["c/a:0"]
    watched.clock.advance(1)
    assert (watched.monitor.health()["alerts"], watched.monitor.lost_count) == ([], 0)
    counted = watched.monitor.process_stats.gc_count
    gc.collect()
    assert watched.monitor.process_stats.gc_count == counted
