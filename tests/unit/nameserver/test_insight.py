"""What a NameServer tells of itself, over real connections: health, history, metrics and readiness."""

import asyncio
import contextlib
import logging
import re
from pathlib import Path

import orjson
import pytest
from prometheus_client.parser import text_string_to_metric_families

from orbitmq.clock import now_ms
from orbitmq.errors import RemoteRefused
from orbitmq.model.topic import DataVersion, TopicConfig
from orbitmq.nameserver import NameServer, NameServerConfig
from orbitmq.net.pool import ConnectionPool, expect
from orbitmq.wire import headers
from orbitmq.wire.bodies.registration import encode_registration

REFERENCE = Path(__file__).parents[3] / "docs" / "reference" / "nameserver.md"
BROKER = headers.RegisterBroker(broker_name="a", broker_addr="h:1", cluster_name="c", ha_server_addr="h:2", broker_id=0)
BODY = encode_registration(DataVersion(0, 1, 1), {name: TopicConfig(topic=name) for name in ("t", "u")})


class Talk:
    """A running NameServer and a client of it."""

    def __init__(self, name_server: NameServer) -> None:
        self.name_server = name_server
        self.pool = ConnectionPool()

    async def ask(self, header: object, body: bytes = b"") -> bytes:
        return expect(await self.pool.request(self.name_server.address, header, body), "").body

    async def get(self, path: str) -> tuple[int, str]:
        host, port = self.name_server.metrics_address.split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(f"GET {path} HTTP/1.1\r\n\r\n".encode())
        head, _, text = (await reader.read()).decode().partition("\r\n\r\n")
        writer.close()
        await writer.wait_closed()
        return int(head.split()[1]), text


def run(scenario, clock=now_ms, **settings):
    async def main():
        settings_of_tests = {"bind_address": "127.0.0.1", "listen_port": 0, "metrics_port": 0} | settings
        name_server = NameServer(NameServerConfig(**settings_of_tests), clock=clock)
        await name_server.start()
        talk = Talk(name_server)
        try:
            return await scenario(talk)
        finally:
            await talk.pool.close()
            await name_server.stop()

    return asyncio.run(main())


def test_metrics_count_what_happened_and_parse():
    async def scenario(talk):
        await talk.ask(BROKER, BODY)
        for _ in range(5):
            await talk.ask(headers.GetRouteInfo(topic="t"))
        with pytest.raises(RemoteRefused):
            await talk.ask(headers.GetRouteInfo(topic="none"))
        return await talk.get("/metrics")

    status, text = run(scenario)
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
    assert found[prefix + "route_query_failures_total", ()] == 1
    assert found[prefix + "registrations_total", ()] == 1
    assert found[prefix + "requests_total", ("105", "GET_ROUTEINFO_BY_TOPIC")] == 6
    assert found[prefix + "refusals_total", ("105", "17", "TOPIC_NOT_EXIST")] == 1
    assert found[prefix + "route_changes_total", ("broker joined", "registration")] == 1
    assert found["process_resident_memory_bytes", ()] > 0


def test_the_reference_names_every_metric():
    async def scenario(talk):
        return (await talk.get("/metrics"))[1]

    text = run(scenario, shadow_address="127.0.0.1:1")
    named = set(re.findall(r"`(rocketmq_nameserver_\w+)", REFERENCE.read_text(encoding="utf-8")))
    # The comment lines name families without a sample, too; a counter's samples end with _total.
    there = {
        f"{name}_total" if kind == "counter" and not name.endswith("_total") else name
        for name, kind in re.findall(r"^# TYPE (rocketmq_nameserver_\w+) (\w+)$", text, re.MULTILINE)
    }
    assert there == named


def test_bytes_of_another_protocol_are_counted_by_kind():
    async def scenario(talk):
        host, port = talk.name_server.address.split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()
        return await talk.get("/metrics")

    assert 'rocketmq_nameserver_connections_ended_total{reason="HTTP/2"} 1.0' in run(scenario)[1]


def test_history_and_difference_are_answered():
    async def scenario(talk):
        await talk.ask(BROKER, BODY)
        await talk.ask(headers.DeleteTopicInNameServer(topic="t"))
        events = orjson.loads(await talk.ask(headers.GetRouteHistory(topic="t")))
        page = orjson.loads((await talk.get("/routes/history?topic=t"))[1])
        difference = orjson.loads(await talk.ask(headers.GetRouteDifference(at_ms=0)))
        return events, page, difference

    events, page, difference = run(scenario)
    assert [event["cause"] for event in events] == ["topic deletion", "registration"]
    assert events[0]["remote"].startswith("127.0.0.1:")
    assert page == events
    assert [topic["topic"] for topic in difference["topics"]] == ["u"]


@pytest.mark.parametrize("count_max", [0, 1001, -1])
def test_a_history_of_too_many_events_is_refused(count_max):
    async def scenario(talk):
        with pytest.raises(RemoteRefused, match="maxNum"):
            await talk.ask(headers.GetRouteHistory(count_max=count_max))

    run(scenario)


def test_a_bad_number_in_a_query_is_refused():
    async def scenario(talk):
        return await talk.get("/routes/history?count=1e9")

    assert run(scenario) == (400, "count: '1e9' is not allowed, expected a number from 0 to 1000\n")


def test_health_says_what_there_is():
    async def scenario(talk):
        await talk.ask(BROKER, BODY)
        return orjson.loads(await talk.ask(headers.GetHealth())), await talk.get("/healthz"), await talk.get("/readyz")

    health, page, ready = run(scenario)
    assert health["healthy"] is True
    assert (health["brokers"], health["topics"]) == (1, 2)
    assert page[0] == 200
    assert ready == (200, "ready\n")


def test_a_name_server_that_waits_for_its_brokers_is_not_ready():
    async def scenario(talk):
        return await talk.get("/readyz")

    assert run(scenario, need_wait_for_service=True)[0] == 503


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


def test_without_a_port_there_is_no_http():
    async def scenario(talk):
        return talk.name_server.metrics_address

    assert run(scenario, metrics_port=-1) is None
