"""Claims about health, alerts and their lines in the log."""

from __future__ import annotations

import logging

import orjson
import pytest

from orbitmq.errors import RemoteRefused
from orbitmq.wire import headers

from ..talk import BODY, BROKER, run


def test_health_says_what_there_is():
    async def scenario(talk):
        await talk.ask(BROKER, BODY)
        return orjson.loads(await talk.ask(headers.GetHealth())), await talk.get("/healthz"), await talk.get("/readyz")

    health, page, ready = run(scenario)
    assert health["healthy"] is True
    assert (health["brokers"], health["topics"]) == (1, 2)
    assert page[0] == 200
    assert ready == (200, "ready\n")


def test_a_broker_that_leaves_is_an_alert_in_health_and_one_line_in_the_log(caplog):
    caplog.set_level(logging.INFO, "orbitmq.nameserver")

    async def scenario(talk):
        await talk.ask(BROKER, BODY)
        await talk.ask(headers.GetHealth())
        leave = headers.UnregisterBroker(broker_name="a", broker_addr="h:1", cluster_name="c", broker_id=0)
        await talk.ask(leave)
        return orjson.loads(await talk.ask(headers.GetHealth()))

    health = run(scenario)
    assert health["healthy"] is False
    assert [alert["rule"] for alert in health["alerts"]] == ["RocketmqNameServerBrokerCountDropped"]
    lines = [record for record in caplog.records if record.getMessage().startswith("broker left: c/a:0 at h:1")]
    assert [line.cause for line in lines] == ["unregistration"]


def test_topics_that_are_asked_for_in_vain_are_named_in_health_and_in_the_alert(caplog):
    moments = iter(range(1_700_000_000_000, 1_800_000_000_000, 1_000))

    async def scenario(talk):
        for _ in range(100):
            with pytest.raises(RemoteRefused):
                await talk.ask(headers.GetRouteInfo(topic="nowhere"))
        return orjson.loads(await talk.ask(headers.GetHealth()))

    health = run(scenario, clock=lambda: next(moments))
    (missing,) = health["missingTopics"]
    assert (missing["topic"], missing["count"]) == ("nowhere", 100)
    assert missing["remote"].startswith("127.0.0.1:")
    (alert,) = health["alerts"]
    assert alert["rule"] == "RocketmqNameServerRouteQueriesFail"
    assert f"nowhere (100, last by {missing['remote']})" in alert["reason"]
    (line,) = [record for record in caplog.records if hasattr(record, "alert")]
    assert (line.alert, line.levelname) == (alert["rule"], "WARNING")
    assert line.getMessage() == f"alert {alert['rule']}: {alert['reason']}"
