import asyncio
import logging
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from orbitmq.client.routing.nameserver_client import NameServerClient
from orbitmq.client.routing.routes import Routes
from orbitmq.client.session.heartbeats import Heartbeats
from orbitmq.client.session.owning_loop import BackgroundTasks
from orbitmq.codes import ResponseCode
from orbitmq.errors import RemoteRefused
from orbitmq.model.group import ConsumerInfo, Heartbeat
from orbitmq.model.route import BrokerData
from orbitmq.net.pool import ConnectionPool
from orbitmq.wire.headers import HeartbeatRequest, UnregisterClient
from unit.client.fakes import FakeBroker
from unit.client.support import noted_pauses
from waiting import until

CONSUMER = Heartbeat(client_id="me", consumers=(ConsumerInfo(group="g"),))
PRODUCER = Heartbeat(client_id="me", producer_groups=("g",))


@asynccontextmanager
async def heartbeats_of(cluster, *, says=CONSUMER, interval_ms=60_000):
    """Heartbeats over routes of their own, which know `orders`; not started."""
    pool, tasks = ConnectionPool(), BackgroundTasks()
    name_servers = NameServerClient(cluster.name_servers, pool)
    routes = Routes(name_servers)
    heartbeats = Heartbeats(pool, routes, tasks, lambda: says, interval_ms)
    await routes.find("orders")
    try:
        yield heartbeats, routes
    finally:
        await tasks.close()
        await routes.close()
        await name_servers.close()
        await pool.close()


async def test_every_broker_hears_what_the_client_says(cluster):
    cluster.topic("orders", cluster.a, cluster.b)
    async with heartbeats_of(cluster) as (heartbeats, _routes):
        await heartbeats.send_to_all()
        assert cluster.a.heartbeats == cluster.b.heartbeats == [CONSUMER]
        assert heartbeats.announced == {cluster.a.address, cluster.b.address}


async def test_a_broker_that_stands_still_keeps_no_other_waiting(cluster):
    cluster.topic("orders", cluster.a, cluster.b)
    async with heartbeats_of(cluster) as (heartbeats, _routes):
        send, goes_on = heartbeats._send, asyncio.Event()

        async def stand_still(address):
            if address == cluster.b.address:
                await goes_on.wait()
            return await send(address)

        heartbeats._send = stand_still
        await heartbeats.send_to_most(0)
        assert heartbeats.announced == {cluster.a.address}
        goes_on.set()
        await until(lambda: cluster.b.address in heartbeats.announced)


async def test_slaves_hear_of_consumers_but_not_of_producers(cluster):
    slave = FakeBroker("broker-a")
    await slave.start()
    cluster.topic("orders")
    members = BrokerData(cluster="c", broker_name="broker-a", addresses={0: cluster.a.address, 1: slave.address})
    cluster.routes["orders"] = replace(cluster.routes["orders"], brokers=(members,))
    async with heartbeats_of(cluster, says=PRODUCER) as (heartbeats, _routes):
        await heartbeats.send_to_all()
        assert (cluster.a.heartbeats, slave.heartbeats) == ([PRODUCER], [])
    async with heartbeats_of(cluster, says=CONSUMER) as (heartbeats, _routes):
        await heartbeats.send_to_all()
        assert slave.heartbeats == [CONSUMER]
    await slave.stop()


async def test_heartbeats_are_repeated_after_their_interval(cluster):
    cluster.topic("orders")
    async with heartbeats_of(cluster, interval_ms=1) as (heartbeats, _routes):
        heartbeats.start()
        await until(lambda: len(cluster.a.heartbeats) >= 3)


async def test_an_interval_is_waited_for(cluster, monkeypatch):
    cluster.topic("orders")
    async with heartbeats_of(cluster, interval_ms=45_000) as (heartbeats, _routes):
        with noted_pauses(monkeypatch, but=()) as pauses:
            heartbeats.start()
            await until(lambda: len(pauses) == 2)
    assert set(pauses) == {45_000}


async def test_a_new_broker_in_a_route_gets_a_heartbeat_immediately_and_a_known_one_does_not(cluster):
    cluster.topic("orders")
    async with heartbeats_of(cluster) as (heartbeats, routes):
        heartbeats.start()
        await until(lambda: heartbeats.announced)
        cluster.topic("orders", cluster.a, cluster.b)
        await routes.refresh("orders")
        await until(lambda: cluster.b.heartbeats)
        assert len(cluster.a.heartbeats) == 1


async def test_before_the_start_and_after_the_end_a_changed_route_sends_none(cluster):
    cluster.topic("orders")
    async with heartbeats_of(cluster) as (heartbeats, routes):
        cluster.topic("orders", cluster.a, count=3)
        await routes.refresh("orders")
        heartbeats.start()
        await until(lambda: cluster.a.heartbeats)
        heartbeats.stop()
        cluster.topic("orders", cluster.a, cluster.b)
        await routes.refresh("orders")
        await asyncio.sleep(0.01)
        assert (len(cluster.a.heartbeats), cluster.b.heartbeats) == (1, [])


async def test_one_broker_may_be_announced_to_by_itself(cluster):
    cluster.topic("orders", cluster.a, cluster.b)
    async with heartbeats_of(cluster) as (heartbeats, _routes):
        heartbeats.announce(cluster.a.address)
        assert heartbeats.announced == {cluster.a.address}
        await until(lambda: cluster.a.heartbeats)
        assert cluster.b.heartbeats == []


async def test_a_broker_is_greeted_once_on_each_connection_and_a_refusal_is_an_answer(cluster):
    cluster.topic("orders")
    async with heartbeats_of(cluster) as (heartbeats, _routes):
        cluster.a.refusals[HeartbeatRequest] = [ResponseCode.SYSTEM_BUSY]
        await asyncio.gather(*(heartbeats.send_heartbeat(cluster.a.address, 10_000) for _ in range(3)))
        assert cluster.a.requests == [HeartbeatRequest()]
        heartbeats._pool.close_address(cluster.a.address)
        await heartbeats.send_heartbeat(cluster.a.address, 10_000)
        assert len(cluster.a.heartbeats) == 1


async def test_a_refused_heartbeat_is_told_once_and_sent_again(cluster, caplog):
    cluster.topic("orders")
    async with heartbeats_of(cluster) as (heartbeats, _routes):
        await heartbeats.send_to_all()
        cluster.a.refusals[HeartbeatRequest] = [ResponseCode.SYSTEM_BUSY] * 2
        with caplog.at_level(logging.WARNING):
            for _ in range(2):
                await heartbeats.send_to_all()
                assert len([line for line in caplog.messages if f"heartbeat to {cluster.a.address}" in line]) == 1
        assert heartbeats.announced == set()
        await heartbeats.send_to_all()
        assert heartbeats.announced == {cluster.a.address}


async def test_an_unreachable_broker_counts_as_one_that_knows_nothing(cluster):
    cluster.topic("orders")
    async with heartbeats_of(cluster) as (heartbeats, _routes):
        await heartbeats.send_to_all()
        heartbeats.mark_unreachable(cluster.a.address)
        heartbeats.mark_unreachable("never:1")
        assert heartbeats.announced == set()


async def test_every_connected_broker_hears_the_end_of_each_group(cluster):
    cluster.topic("orders", cluster.a, cluster.b)
    ends = [UnregisterClient(client_id="me", producer_group="p"), UnregisterClient(client_id="me", consumer_group="g")]
    async with heartbeats_of(cluster, says=replace(CONSUMER, producer_groups=("p",))) as (heartbeats, _routes):
        await heartbeats.send_to_all()
        await cluster.b.stop()
        await heartbeats.unregister()
    assert cluster.a.unregistered == ends
    assert cluster.b.unregistered == []


async def test_a_broker_that_does_not_answer_a_farewell_delays_no_other(cluster, monkeypatch):
    monkeypatch.setattr("orbitmq.client.session.heartbeats.UNREGISTER_TIMEOUT_MS", 20)
    cluster.topic("orders")
    cluster.a.silent.add(UnregisterClient)
    async with heartbeats_of(cluster) as (heartbeats, _routes):
        await heartbeats.send_to_all()
        async with asyncio.timeout(1):
            await heartbeats.unregister()
    assert len(cluster.a.unregistered) == 1


async def test_a_broker_that_pushes_hears_once_for_each_connection_however_many_ask(cluster):
    cluster.topic("orders")
    async with heartbeats_of(cluster, says=PRODUCER) as (heartbeats, _routes):
        await asyncio.gather(*(heartbeats.ensure(cluster.a.address, 20_000) for _ in range(5)))
        assert cluster.a.heartbeats == [PRODUCER]
        assert heartbeats.announced == {cluster.a.address}
        for connection in tuple(cluster.a.connections):
            connection.kill()
        await until(lambda: cluster.a.address not in heartbeats._pool.addresses)
        await heartbeats.ensure(cluster.a.address, 20_000)
        assert cluster.a.heartbeats == [PRODUCER] * 2


async def test_a_broker_that_refuses_the_heartbeat_is_no_broker_that_pushes(cluster):
    cluster.topic("orders")
    cluster.a.refusals[HeartbeatRequest] = [ResponseCode.SYSTEM_ERROR]
    async with heartbeats_of(cluster, says=PRODUCER) as (heartbeats, _routes):
        with pytest.raises(RemoteRefused):
            await heartbeats.ensure(cluster.a.address, 20_000)
        assert heartbeats.announced == set()
        await heartbeats.ensure(cluster.a.address, 20_000)
        assert cluster.a.heartbeats == [PRODUCER]


async def test_brokers_that_push_are_all_told_again(cluster):
    cluster.topic("orders", cluster.a, cluster.b)
    async with heartbeats_of(cluster, says=PRODUCER) as (heartbeats, _routes):
        assert await heartbeats.ensure_again(20_000)  # there is none yet
        for broker in (cluster.a, cluster.b):
            await heartbeats.ensure(broker.address, 20_000)
        await cluster.b.stop()
        await until(lambda: cluster.b.address not in heartbeats._pool.addresses)
        assert not await heartbeats.ensure_again(20_000)
        await cluster.b.start()
        assert await heartbeats.ensure_again(20_000)
        assert (len(cluster.a.heartbeats), len(cluster.b.heartbeats)) == (1, 2)
