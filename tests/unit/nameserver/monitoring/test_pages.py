"""The metrics that Prometheus reads, and the pages of the HTTP port."""

from __future__ import annotations

import asyncio
import contextlib
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from prometheus_client.parser import text_string_to_metric_families

from cases import each_case
from orbitmq.admin.route_comparison import Difference
from orbitmq.codes import RequestCode
from orbitmq.errors import InvalidArgument, RemoteRefused
from orbitmq.monitoring.alerts import Alert
from orbitmq.nameserver.monitoring.alerts import NameServerAlertRule
from orbitmq.nameserver.monitoring.monitor import NameServerMonitor
from orbitmq.nameserver.monitoring.pages import NameServerMetrics, pages
from orbitmq.nameserver.monitoring.route_history import RouteHistory
from orbitmq.nameserver.monitoring.shadow import Comparison
from orbitmq.nameserver.monitoring.unknown_topics import UnknownTopics
from orbitmq.nameserver.routing.events import Cause, ChangeKind, RouteChange, Trigger
from orbitmq.net.counters import Counters
from orbitmq.wire import headers
from unit.nameserver.talk import BODY, BROKER, talking

pytestmark = pytest.mark.real

REFERENCE = Path(__file__).parents[4] / "docs" / "reference" / "nameserver.md"


async def test_metrics_count_what_happened_and_parse():
    async with talking() as talk:
        await talk.ask(BROKER, BODY)
        for _ in range(5):
            await talk.ask(headers.GetRouteInfo(topic="t"))
        with pytest.raises(RemoteRefused):
            await talk.ask(headers.GetRouteInfo(topic="none"))
        status, text = await talk.get("/metrics")
    assert status == 200
    found = {
        (sample.name, tuple(sorted(sample.labels.values()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    prefix = "rocketmq_nameserver_"
    assert found[prefix + "registered_brokers", ()] == 1
    assert found[prefix + "registered_topics", ()] == 2
    assert found[prefix + "active_connections", ()] == 1
    assert found[prefix + "route_queries_total", ()] == 6
    assert found[prefix + "route_query_failures_total", ()] == 0, "the topic may still appear"
    assert found[prefix + "registrations_total", ()] == 1
    assert found[prefix + "requests_total", ("105", "GET_ROUTEINFO_BY_TOPIC")] == 6
    assert found[prefix + "refusals_total", ("105", "17", "TOPIC_NOT_EXIST")] == 1
    assert found[prefix + "route_changes_total", ("broker joined", "registration")] == 1
    assert found["process_resident_memory_bytes", ()] > 0


async def test_the_reference_names_every_metric():
    async with talking(shadow_address="127.0.0.1:1") as talk:
        text = (await talk.get("/metrics"))[1]
    named = set(re.findall(r"`(rocketmq_nameserver_\w+)", REFERENCE.read_text(encoding="utf-8")))
    # The comment lines name families without a sample, too; a counter's samples end with _total.
    there = {
        f"{name}_total" if kind == "counter" and not name.endswith("_total") else name
        for name, kind in re.findall(r"^# TYPE (rocketmq_nameserver_\w+) (\w+)$", text, re.MULTILINE)
    }
    assert there == named


async def test_bytes_of_another_protocol_are_counted_by_kind():
    async with talking() as talk:
        host, port = talk.name_server.address.split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()
        text = (await talk.get("/metrics"))[1]
    assert 'rocketmq_nameserver_connections_ended_total{reason="HTTP/2"} 1.0' in text


class Figures:
    """A NameServer's figures, each with a number of its own, and what Prometheus is shown of them."""

    def __init__(self, shadow: Any = None) -> None:
        counters = Counters(
            connections_opened=11,
            connections_refused=12,
            connections_encrypted=13,
            bytes_received=14,
            bytes_sent=15,
            throttled=16,
            unsupported_requests=17,
            failed_requests=18,
        )
        counters.requests[RequestCode.REGISTER_BROKER] = 21
        counters.requests[RequestCode.GET_ROUTEINFO_BY_TOPIC] = 22
        counters.requests[99_999] = 23
        counters.refusals[RequestCode.GET_ROUTEINFO_BY_TOPIC, 17] = 24
        counters.refusals[RequestCode.GET_ROUTEINFO_BY_TOPIC, 99_999] = 25
        counters.closed_by_us["idle"] = 26
        server: Any = SimpleNamespace(
            counters=counters, connections=[1, 2, 3], address="h:1", partial_frames_size=33, waiting_answers_size=34
        )
        tables: Any = SimpleNamespace(broker_count=31, topic_count=32)
        self.monitor = NameServerMonitor(server, tables, UnknownTopics(), is_ready=lambda now_ms: True, clock=lambda: 0)
        self.monitor.alert_log.update([Alert(NameServerAlertRule.MEMORY_HIGH, "because")])
        self.metrics = NameServerMetrics(server, tables, self.monitor, shadow)

        for number in range(34):
            trigger = Trigger(Cause.CONNECTION_CLOSED, 0)
            change = RouteChange(
                kind=ChangeKind.BROKER_LEFT, trigger=trigger, cluster="c", broker_name=f"b{number}", broker_id=0
            )
            self.monitor.note(change)

    def samples(self) -> dict[tuple[str, ...], float]:
        """Return every value by the metric's name without its prefix, and its labels' values."""
        return {
            (sample.name.removeprefix("rocketmq_nameserver_"), *sample.labels.values()): sample.value
            for family in self.metrics.collect()
            for sample in family.samples
        }


def test_every_figure_has_its_own_metric():
    assert (
        Figures().samples().items()
        >= {
            ("registered_brokers",): 31,
            ("registered_topics",): 32,
            ("vanished_brokers",): 34,
            ("requests_total", "103", "REGISTER_BROKER"): 21,
            ("requests_total", "105", "GET_ROUTEINFO_BY_TOPIC"): 22,
            ("requests_total", "99999", "99999"): 23,
            ("refusals_total", "105", "17", "TOPIC_NOT_EXIST"): 24,
            ("refusals_total", "105", "99999", "99999"): 25,
            ("route_queries_total",): 22,
            ("route_query_failures_total",): 49,
            ("registrations_total",): 21,
            ("unsupported_requests_total",): 17,
            ("failed_requests_total",): 18,
            ("active_connections",): 3,
            ("partial_frames_bytes",): 33,
            ("waiting_answers_bytes",): 34,
            ("connections_opened_total",): 11,
            ("connections_refused_total",): 12,
            ("connections_encrypted_total",): 13,
            ("throttled_total",): 16,
            ("connections_ended_total", "idle"): 26,
            ("received_bytes_total",): 14,
            ("sent_bytes_total",): 15,
            ("alert", "RocketmqNameServerMemoryHigh"): 1,
        }.items()
    )


def test_times_are_shown_in_seconds():
    figures = Figures()
    figures.monitor.process_stats.gc_ms = 2_500
    figures.monitor.process_stats.gc_count = 7
    found = figures.samples()
    assert (found["gc_seconds_total",], found["gc_collections_total",]) == (2.5, 7)
    assert found["memory_anonymous_bytes",] > 1_000_000
    assert found["memory_limit_bytes",] == figures.monitor.process_stats.memory_limit


def test_a_comparison_is_shown_where_there_is_one():
    assert not [name for name, *_ in Figures().samples() if name.startswith("shadow")]
    a, b = Difference("a", ()), Difference("b", ())
    last = Comparison(at_ms=1_500, is_up=True, differences=(a, b), drift=(a,))
    found = Figures(SimpleNamespace(last=last)).samples()
    assert {name: value for (name, *_), value in found.items() if name.startswith("shadow")} == {
        "shadow_up": 1,
        "shadow_drift": 1,
        "shadow_differences": 2,
        "shadow_compared_timestamp_seconds": 1.5,
    }


UNUSED: Any = SimpleNamespace(collect=None, health=None)


async def test_a_bad_number_in_a_query_is_refused():
    async with talking() as talk:
        assert await talk.get("/routes/history?count=1e9") == (
            400,
            "count: '1e9' is not allowed, expected a number from 0 to 1000\n",
        )


async def test_a_name_server_that_waits_for_its_brokers_is_not_ready():
    async with talking(need_wait_for_service=True) as talk:
        assert (await talk.get("/readyz"))[0] == 503


async def test_without_a_port_there_is_no_http():
    async with talking(metrics_port=-1) as talk:
        assert talk.name_server.metrics_address is None


async def test_history_may_be_asked_for_since_any_time_that_a_double_holds():
    async with talking() as talk:
        (found, body), (refused, words) = [
            await talk.get(f"/routes/history?since={since}") for since in (2**53, 2**53 + 1)
        ]
    assert (found, body) == (200, "[]")
    assert (refused, words) == (400, f"since: '{2**53 + 1}' is not allowed, expected a number from 0 to {2**53}\n")


def test_history_shows_two_hundred_events_since_ever_unless_asked_otherwise():
    route_history = RouteHistory(1_000)
    for _ in range(201):
        route_history.add(
            RouteChange(
                kind=ChangeKind.BROKER_LEFT, trigger=Trigger(Cause.REGISTRATION, 0), cluster="c", broker_name="a"
            )
        )
    history = pages(UNUSED, UNUSED, route_history)["/routes/history"]
    assert [len(orjson.loads(history(query).body)) for query in ({}, {"count": "201"}, {"since": "1"})] == [200, 201, 0]


@each_case("\u0663", "-1", "", "1001")
def test_a_count_is_ascii_digits_up_to_a_thousand(count):
    history = pages(UNUSED, UNUSED, RouteHistory(1))["/routes/history"]
    with pytest.raises(InvalidArgument, match="count"):
        history({"count": count})


@pytest.mark.parametrize("query", ["cnt=2", "cnt", "topic=a&since=0&limit=9"])
async def test_a_misspelt_parameter_is_refused_instead_of_left_alone(query):
    async with talking() as talk:
        status, words = await talk.get(f"/routes/history?{query}")
    name = query.split("&")[-1].split("=")[0]
    assert (status, words) == (400, f"query: {name!r} is not allowed, expected one of topic, broker, since, count\n")
