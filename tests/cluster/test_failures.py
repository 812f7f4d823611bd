"""What operators fear of NameServers (facts A8), with real processes and clients under load."""

import asyncio

from cluster.lab import lab
from cluster.world import TOPIC, Load, World, create_topic, eventually, world
from orbitmq.net.pool import expect
from orbitmq.wire.headers import WipeWritePerm

QUICK_LEASE = {"heartbeatEnable": True, "brokerHeartbeatInterval": 200, "brokerNotActiveTimeoutMillis": 1500}
"""A silent death is noticed after this long and one scan; the default is 120 s and the same code."""


async def test_one_name_server_down_and_back_again_goes_unnoticed(tmp_path):
    async with world(tmp_path) as cluster, Load(cluster.name_server_list).running() as load:
        for name in ("ns1", "ns2", "ns3"):
            await cluster.name_servers[name].kill()
            await load.more()
            await cluster.start_name_server(name)
            await eventually(cluster.all_equal, "all NameServers equal again")
        await load.settle()
    assert load.errors == []


async def test_with_all_name_servers_down_running_clients_go_on_and_afterwards_nobody_does_anything(tmp_path):
    async with world(tmp_path) as cluster, Load(cluster.name_server_list).running() as load:
        before = await eventually(cluster.all_equal, "all NameServers equal")
        for name in cluster.name_servers:
            await cluster.name_servers[name].kill()
        await load.more(500)
        for name in cluster.name_servers:
            await cluster.start_name_server(name)  # empty: nothing was on its disk
        assert await eventually(cluster.all_equal_and_full, "full routes again") == before
        await load.more()
        await load.settle()
    assert load.errors == []


async def test_a_name_server_that_is_added_later_is_filled_by_whoever_starts_with_it(tmp_path):
    async with world(tmp_path, name_servers=["ns1"]) as cluster:
        await cluster.start_name_server("ns2")
        assert not await cluster.knows("ns2", "broker-a")
        for name in ("broker-a", "broker-b"):
            await cluster.brokers[name].stop()
            await cluster.start_broker(name)
        await eventually(cluster.all_equal_and_full, "the new NameServer as full as the old one")


async def test_a_broker_that_stops_cleanly_leaves_the_routes_by_its_own_word(tmp_path):
    async with world(tmp_path) as cluster, Load(cluster.name_server_list).running() as load:
        await cluster.brokers["broker-b"].stop()
        assert not await cluster.knows("ns1", "broker-b")  # it had said so before its process ended
        assert await cluster.causes("ns1", "broker-b") == ["unregistration"]
        await load.more()
        assert set(load.brokers[-20:]) == {"broker-a"}
        await cluster.start_broker("broker-b")
        await eventually(cluster.all_equal_and_full, "the broker back everywhere")
        await load.settle()
    assert load.errors == []


async def test_a_broker_that_is_killed_leaves_the_routes_with_its_connection(tmp_path):
    async with world(tmp_path) as cluster, Load(cluster.name_server_list).running() as load:
        await cluster.brokers["broker-b"].kill()
        for name in cluster.name_servers:
            await eventually(lambda name=name: _gone(cluster, name, "broker-b"), "the killed broker gone")
            assert await cluster.causes(name, "broker-b") == ["connection closed"]
        await load.more()
        assert set(load.brokers[-20:]) == {"broker-a"}
        await cluster.start_broker("broker-b")
        await eventually(cluster.all_equal_and_full, "the broker back everywhere")
        await load.more()
        await load.settle()


async def test_a_silent_broker_leaves_the_routes_when_its_lease_ends(tmp_path, can_make_hosts):
    with lab("ns", "a", "b") as hosts:
        cluster = World(tmp_path)
        try:
            await cluster.start_name_server("ns1", host=hosts.hosts["ns"], scanNotActiveBrokerInterval=200)
            for name in ("a", "b"):
                await cluster.start_broker(f"broker-{name}", host=hosts.hosts[name], **QUICK_LEASE)
            await create_topic(cluster)
            async with Load(cluster.name_server_list).running() as load:
                hosts.partition("b")
                await eventually(lambda: _gone(cluster, "ns1", "broker-b"), "the silent broker gone")
                assert await cluster.causes("ns1", "broker-b") == ["lease expired"]
                await load.more()
                assert set(load.brokers[-20:]) == {"broker-a"}
                hosts.heal()
                await eventually(lambda: cluster.knows("ns1", "broker-b"), "the broker back")
        finally:
            await cluster.close()


async def test_a_name_server_that_was_cut_off_agrees_again_after_healing(tmp_path, can_make_hosts):
    with lab("n1", "n2", "n3", "a", "b", "c") as hosts:
        cluster = World(tmp_path)
        try:
            for number in (1, 2, 3):
                host = hosts.hosts[f"n{number}"]
                await cluster.start_name_server(f"ns{number}", host=host, scanNotActiveBrokerInterval=200)
            for name in ("a", "b"):
                await cluster.start_broker(f"broker-{name}", host=hosts.hosts[name], **QUICK_LEASE)
            await create_topic(cluster)
            async with Load(cluster.name_server_list).running() as load:
                hosts.partition("n3")
                await cluster.brokers["broker-b"].stop()
                await cluster.start_broker("broker-c", host=hosts.hosts["c"], **QUICK_LEASE)
                await load.more()
                assert await cluster.knows("ns1", "broker-c")
                hosts.heal()
                await eventually(cluster.all_equal, "all NameServers equal after healing")
                assert await cluster.knows("ns3", "broker-c")
                assert not await cluster.knows("ns3", "broker-b")
                await load.more()
        finally:
            await cluster.close()


async def test_a_broker_retires_gracefully(tmp_path):
    async with world(tmp_path) as cluster, Load(cluster.name_server_list).running() as load:
        await eventually(lambda: _both_used(load), "both brokers in use")
        for address in cluster.name_server_list:  # as mqadmin wipeWritePerm does
            expect(await cluster.pool.request(address, WipeWritePerm(broker_name="broker-b")), address)
        await eventually(lambda: _unused(load, "broker-b"), "no traffic to the retired broker")
        await cluster.brokers["broker-b"].stop()
        await load.more()
        await load.settle()
    assert load.errors == []


async def _gone(cluster: World, name_server: str, broker: str) -> bool:
    snapshot = await cluster.snapshot(name_server)
    assert snapshot is not None
    is_known = f"broker {broker}" in snapshot.facts
    is_routed = f"topic {TOPIC} at {broker}" in snapshot.facts
    assert is_known or not is_routed, "an answer shows a half-done removal"
    return not is_known


async def _both_used(load: Load) -> bool:
    return len(set(load.brokers[-50:])) == 2


async def _unused(load: Load, broker: str) -> bool:
    seen = len(load.brokers)
    while len(load.brokers) < seen + 50:
        await asyncio.sleep(0.01)
    return broker not in load.brokers[seen:]
