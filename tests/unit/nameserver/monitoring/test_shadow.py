import asyncio
import logging

import pytest

from orbitmq.admin.route_comparison import Difference, RouteFacts
from orbitmq.clock import now_ms
from orbitmq.model.topic import DataVersion, TopicConfig
from orbitmq.nameserver import NameServer, NameServerConfig
from orbitmq.nameserver.monitoring.shadow import Comparison, Shadow, compare
from orbitmq.nameserver.routing.tables import Tables
from orbitmq.net.pool import ConnectionPool, expect
from orbitmq.wire import headers
from orbitmq.wire.bodies.registration import encode_registration
from waiting import until

pytestmark = pytest.mark.real

BROKER = headers.RegisterBroker(broker_name="a", broker_addr="h:1", cluster_name="c", ha_server_addr="h:2", broker_id=0)
BODY = encode_registration(DataVersion(0, 1, 1), {name: TopicConfig(topic=name) for name in ("t", "u")})


def test_a_difference_is_drift_only_when_it_lasts():
    ours, theirs = RouteFacts({"topic t at a": "4"}), RouteFacts({"topic t at a": "8"})
    first = compare(Comparison(), ours, theirs, "java:1", 1)
    assert [difference.subject for difference in first.differences] == ["topic t at a"]
    assert first.drift == ()
    second = compare(first, ours, theirs, "java:1", 2)
    assert second.drift == second.differences
    third = compare(second, ours, ours, "java:1", 3)
    assert third.drift == third.differences == ()
    assert third.own_digest == third.other_digest


def run(scenario):
    async def main():
        servers = [NameServer(NameServerConfig(bind_address="127.0.0.1", listen_port=0)) for _ in range(2)]
        for server in servers:
            await server.start()
        pool = ConnectionPool()
        shadow = Shadow(
            servers[0].service.tables, servers[1].address, interval_ms=1000, clock=now_ms, pool=ConnectionPool()
        )
        try:
            return await scenario(servers, pool, shadow)
        finally:
            await shadow.stop()
            await pool.close()
            for server in servers:
                await server.stop()

    return asyncio.run(main())


def test_two_name_servers_with_the_same_brokers_do_not_drift_and_a_missing_broker_does():
    async def scenario(servers, pool, shadow):
        expect(await pool.request(servers[1].address, BROKER, BODY), "")
        await shadow.compare()
        missing = await shadow.compare()
        expect(await pool.request(servers[0].address, BROKER, BODY), "")
        return missing, await shadow.compare()

    missing, equal = run(scenario)
    assert [difference.subject for difference in missing.drift] == ["broker a", "topic t at a", "topic u at a"]
    assert equal.is_up
    assert equal.differences == ()
    assert equal.own_digest == equal.other_digest != ""


def test_a_name_server_that_is_down_is_said_to_be_down(caplog):
    async def scenario(servers, pool, shadow):
        await servers[1].stop()
        return await shadow.compare(), await shadow.compare()

    first, second = run(scenario)
    assert not first.is_up
    assert "cannot connect" in second.error
    assert sum("cannot be compared" in message for message in caplog.messages) == 1


def test_shadow_mode_is_one_setting_and_stands_in_health():
    async def main():
        other = NameServer(NameServerConfig(bind_address="127.0.0.1", listen_port=0))
        await other.start()
        settings = NameServerConfig(bind_address="127.0.0.1", listen_port=0, shadow_address=other.address)
        server = NameServer(settings)
        await server.start()
        await until(lambda: server.shadow.last.is_up)
        health = server.monitor.health()
        await server.stop()
        await other.stop()
        return health["shadow"]

    document = asyncio.run(main())
    assert document["up"] is True
    assert document["drift"] == []


def shadow_of(**options):
    return Shadow(Tables(), "127.0.0.1:1", interval_ms=3_600_000, clock=lambda: 7, pool=ConnectionPool(), **options)


def test_before_the_first_comparison_nothing_is_known():
    assert shadow_of().document() == {
        "other": "127.0.0.1:1",
        "at": 0,
        "up": False,
        "error": None,
        "ownDigest": "",
        "otherDigest": "",
        "differences": 0,
        "drift": [],
    }


def test_a_hundred_differences_that_last_stand_in_the_document():
    shadow = shadow_of()
    shadow.last = Comparison(drift=tuple(Difference(f"topic t{number}", (("here", "4"),)) for number in range(150)))
    drift = shadow.document()["drift"]
    assert (len(drift), drift[0]) == (100, {"subject": "topic t0", "facts": {"here": "4"}})


def test_drift_is_logged_when_it_begins_changes_and_ends(caplog):
    caplog.set_level(logging.INFO, "orbitmq.nameserver")

    async def scenario(servers, pool, shadow):
        expect(await pool.request(servers[1].address, BROKER, BODY), "")
        for _ in range(4):
            await shadow.compare()
        expect(await pool.request(servers[0].address, BROKER, BODY), "")
        for _ in range(2):
            await shadow.compare()

    run(scenario)
    lines = [(record.levelname, record.getMessage().split(" from ")[0]) for record in caplog.records]
    assert [line for line in lines if line[1].startswith("shadow: ")] == [
        ("WARNING", "shadow: 3 differences"),
        ("INFO", "shadow: no difference"),
    ]


async def test_a_shadow_waits_between_two_comparisons(monkeypatch):
    loop, waits = asyncio.get_running_loop(), []
    call_later = loop.call_later

    def noting(delay_s, *args, **options):
        waits.append(delay_s)
        return call_later(delay_s, *args, **options)

    monkeypatch.setattr(loop, "call_later", noting)
    times = []
    shadow = Shadow(Tables(), "127.0.0.1:1", interval_ms=3_600_000, clock=lambda: len(times), pool=ConnectionPool())
    monkeypatch.setattr(shadow, "compare", lambda compare=shadow.compare: times.append(1) or compare())
    shadow.start()
    await until(lambda: 3_600.0 in waits or len(times) > 1)
    await shadow.stop()
    assert len(times) == 1


def test_a_shadow_that_stops_closes_its_connections():
    async def scenario(servers, pool, shadow):
        await shadow.compare()
        assert servers[1].server.connections
        await shadow.stop()
        await until(lambda: not servers[1].server.connections)

    run(scenario)
