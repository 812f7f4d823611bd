"""Sessions of clients: their ids, their event loop and their background tasks."""

import asyncio
import gc
import ipaddress
import logging
import socket
import weakref

import pytest

from cases import each_case
from orbitmq.client.session.client_id import client_id, local_ip, unique_instance, unique_key_seed
from orbitmq.client.session.owning_loop import BackgroundTasks, OwningLoop
from orbitmq.client.session.session import ClientSession
from orbitmq.errors import ClientError, ConnectionBroken, ConnectionFailed, RequestTimeout, RouteNotFound
from orbitmq.model.group import Heartbeat
from orbitmq.model.route import MessageQueue
from orbitmq.wire.headers import GetMaxOffset, HeartbeatRequest, SendMessageV2
from unit.client.support import describe, open_session
from waiting import until

A_SEND = SendMessageV2(
    producer_group="g", topic="orders", default_topic="TBW102", default_topic_queue_nums=4, queue_id=0, sys_flag=0,
    born_at_ms=0, flag=0,
)  # fmt: skip


def session(cluster, **settings):
    return ClientSession(cluster.name_servers, instance="me", **settings)


async def test_its_name_is_address_and_instance(cluster):
    found = session(cluster)
    found.open()
    assert found.id == "127.0.0.1@me"
    await found.close()


async def test_a_call_goes_to_the_broker_that_the_route_names(cluster):
    cluster.topic("orders")
    async with open_session(cluster, "orders") as found:
        assert (await found.call("broker-a", GetMaxOffset(topic="orders", queue_id=0))).ext_fields == {"offset": "0"}
        with pytest.raises(RouteNotFound, match="broker-b"):
            await found.call("broker-b", GetMaxOffset(topic="orders", queue_id=0))


async def test_errors_of_calls_say_where_the_address_was_learnt_and_what_to_try(cluster):
    cluster.topic("orders")
    cluster.a.silent.add(SendMessageV2)
    async with open_session(cluster, "orders") as found:
        await found.pool.connect(cluster.a.address)  # the time of the call is for its answer
        with pytest.raises(RequestTimeout, match="did not answer") as slow:
            await found.call("broker-a", A_SEND, timeout_ms=20)
        await cluster.a.stop()
        with pytest.raises(ConnectionFailed) as gone:
            await found.call("broker-a", GetMaxOffset(topic="orders", queue_id=0))
        for error, hint in ((slow.value, "timeout_ms"), (gone.value, "brokerIP1")):
            assert all(
                part in str(error) for part in (cluster.a.address, cluster.name_server.address, "broker-a", hint)
            )


async def test_a_session_is_opened_once(cluster):
    found = session(cluster)
    found.open()
    with pytest.raises(ClientError, match="once"):
        found.open()
    await found.close()


@pytest.mark.real
async def test_a_closed_session_leaves_no_task_behind(monkeypatch):
    async def getaddrinfo(*_, **__):
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo, raising=False)
    found = ClientSession("ns.example:1", instance="me", describe=describe)
    found.open()
    asking = asyncio.create_task(found.routes.find("orders"), name="the caller's own")
    await until(lambda: "orbitmq NameServer names" in {task.get_name() for task in asyncio.all_tasks()})
    await found.close()
    await asyncio.wait([asking])
    assert [name for task in asyncio.all_tasks() if (name := task.get_name()).startswith("orbitmq")] == []


async def test_a_broker_that_does_not_answer_is_told_once_until_it_answers_again(cluster, caplog):
    cluster.topic("orders")
    async with open_session(cluster, "orders", describe=describe) as found:
        with caplog.at_level(logging.INFO, "orbitmq.client.session"):
            for _ in range(2):
                found.note_failure("broker-a", RequestTimeout("slow"))
                found.note_failure("broker-a", RequestTimeout("slow"))
                found.note_answer("broker-a")
                found.note_answer("broker-a")
    lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.INFO]
    assert lines == ["slow", "broker broker-a answers again"] * 2


async def test_a_failed_call_makes_the_next_answer_announce_the_client(cluster):
    cluster.topic("orders")
    async with open_session(cluster, "orders", describe=describe) as found:
        await until(lambda: cluster.a.heartbeats)
        found.note_answer("broker-a")
        await asyncio.sleep(0)
        cluster.a.silent.add(SendMessageV2)
        with pytest.raises(RequestTimeout):
            await found.call("broker-a", A_SEND, timeout_ms=20)
        count = len(cluster.a.heartbeats)
        found.note_answer("broker-a")
        await until(lambda: len(cluster.a.heartbeats) == count + 1)
    found.note_answer("broker-a")  # closed: nothing to announce
    assert len(cluster.a.heartbeats) == count + 1


async def test_an_announcement_that_fails_says_which_broker(cluster):
    cluster.topic("orders")
    async with open_session(cluster, "orders", describe=lambda client_id: Heartbeat(client_id=client_id)) as session:
        await session.announce("broker-a")
        assert [heartbeat.client_id for heartbeat in cluster.a.heartbeats][-1] == session.id
        await cluster.a.stop()
        await until(lambda: cluster.a.address not in session.pool.addresses)
        with pytest.raises(ConnectionFailed, match="broker broker-a at"):
            await session.announce("broker-a")
        assert not await session.announce_again()


async def test_a_client_without_heartbeats_announces_nothing(cluster):
    cluster.topic("orders")
    async with open_session(cluster, "orders") as session:
        await session.announce("broker-a")
        assert await session.announce_again()
        await session.check_broker("broker-a")
        assert cluster.a.requests == []


async def test_an_unanswered_greeting_is_a_connection_that_failed(cluster, monkeypatch):
    cluster.topic("orders")
    async with open_session(cluster, "orders", describe=describe) as found:
        await until(lambda: cluster.a.heartbeats)
        await found.check_broker("broker-a")
        cluster.a.silent.add(HeartbeatRequest)
        found.pool.close_address(cluster.a.address)
        with pytest.raises(ConnectionFailed, match=f"{cluster.a.address}.*brokerIP1") as silent:
            await found.check_broker("broker-a", timeout_ms=20)
        assert not isinstance(silent.value, ConnectionBroken)  # which counts against the retries of a send
        await cluster.a.stop()
        with pytest.raises(ConnectionFailed):
            await found.check_broker("broker-a")


async def test_a_logical_queues_leader_is_asked_and_after_it_has_moved_the_next_one(cluster):
    cluster.static_topic("orders", cluster.a)
    queue = MessageQueue("orders", "__syslo__global__", 0)
    question = GetMaxOffset(topic="orders", queue_id=0)
    async with open_session(cluster, "orders") as found:
        assert (await found.call_queue(queue, question)).ext_fields == {"offset": "0"}
        cluster.b.put("orders", 0, b"1")
        cluster.a.refusals[GetMaxOffset] += [501, 501]
        assert (await found.call_queue(queue, question)).code == 501, "it is unknown another one"
        cluster.static_topic("orders", cluster.b, epoch=2)
        assert (await found.call_queue(queue, question)).ext_fields == {"offset": "1"}
        assert found.routes.knows(queue)
        assert not found.routes.knows(queue._replace(queue_id=1))


async def test_the_broker_of_a_plain_queue_is_asked_once(cluster):
    cluster.topic("orders")
    cluster.a.refusals[GetMaxOffset] += [501]
    async with open_session(cluster, "orders") as found:
        queue = MessageQueue("orders", "broker-a", 0)
        assert (await found.call_queue(queue, GetMaxOffset(topic="orders", queue_id=0))).code == 501


@pytest.mark.real
def test_the_address_is_the_one_that_reaches_the_peer():
    assert local_ip("127.0.0.1:9876") == "127.0.0.1"


@pytest.mark.real
def test_without_a_peer_that_can_be_reached_it_is_the_loopback():
    assert local_ip() == "127.0.0.1"
    assert local_ip("no address", "127.0.0.1:1") == "127.0.0.1"
    assert ipaddress.ip_address(local_ip("192.0.2.1:9876"))


def test_the_address_of_this_machine_is_found_without_a_lookup_of_names(monkeypatch):
    """A name service that takes seconds stops the loop: each client asks for its address when it is opened."""
    connected = []

    class Probe(socket.socket):
        def connect(self, address):
            connected.append(address[0])

    monkeypatch.setattr(socket, "socket", Probe)
    for peer in ("nameserver.example:9876", "localhost:9876", "[::1]:9876"):
        local_ip(peer)
    assert [str(ipaddress.ip_address(host)) for host in connected] == ["192.0.2.1", "127.0.0.1", "::1"]


def test_every_client_object_has_a_name_of_its_own():
    assert len({unique_instance() for _ in range(100)}) == 100
    assert ClientSession("ns.example:1").id != ClientSession("ns.example:1").id
    assert client_id("10.0.0.1", "x") == "10.0.0.1@x"


def test_seeds_are_32_bits_and_differ():
    seeds = {unique_key_seed() for _ in range(100)}
    assert len(seeds) == 100
    assert max(seeds) < 2**32


def settled():
    """Return a home on a loop that is closed by now."""
    owning_loop = OwningLoop("Producer")

    async def settle():
        owning_loop.settle()
        owning_loop.check()

    asyncio.run(settle())
    return owning_loop


def check_in_a_loop(owning_loop):
    async def check():
        owning_loop.check()

    asyncio.run(check())


def test_who_has_no_home_may_be_used_anywhere():
    owning_loop = OwningLoop("Producer")
    owning_loop.check()
    check_in_a_loop(owning_loop)
    owning_loop = settled()
    owning_loop.leave()
    owning_loop.check()
    check_in_a_loop(owning_loop)


@each_case(check_in_a_loop, lambda owning_loop: owning_loop.check())
def test_another_loop_and_no_loop_are_refused_with_what_to_do(check):
    with pytest.raises(
        ClientError, match=r"^this Producer belongs to another event loop, which is closed: .*orbitmq\.blocking"
    ):
        check(settled())


async def test_a_home_that_lives_is_not_called_closed():
    owning_loop = OwningLoop("Producer")
    owning_loop.settle()
    with pytest.raises(ClientError, match="belongs to another event loop: open one"):
        await asyncio.to_thread(owning_loop.check)
    owning_loop.check()


def test_the_first_loop_stays_the_home():
    owning_loop = settled()

    async def settle_again():
        owning_loop.settle()
        owning_loop.check()

    with pytest.raises(ClientError, match="another event loop"):
        asyncio.run(settle_again())


async def test_work_is_begun_immediately_and_named_for_those_who_look_at_tasks():
    tasks = BackgroundTasks()
    begun = asyncio.Event()

    async def work():
        begun.set()
        return 7

    task = tasks.spawn(work(), "counting")
    await begun.wait()
    assert await task == 7
    assert task.get_name() == "orbitmq counting"


async def test_closing_cancels_what_runs_and_waits_until_it_has_ended():
    tasks, ends = BackgroundTasks(), []

    async def work():
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ends.append("ended")

    tasks.spawn(work(), "waiting")
    await asyncio.sleep(0)
    await tasks.close()
    assert ends == ["ended"]


async def test_a_task_may_close_the_others_without_cancelling_itself():
    tasks = BackgroundTasks()
    other = tasks.spawn(asyncio.Event().wait(), "waiting")

    async def close():
        await tasks.close()
        await asyncio.sleep(0)
        return "went on"

    assert await tasks.spawn(close(), "closing") == "went on"
    assert other.cancelled()


async def test_an_unexpected_error_is_logged_and_a_cancelled_task_is_none(caplog):
    tasks = BackgroundTasks()

    async def fail():
        raise ValueError("a mistake of ours")

    failing, waiting = tasks.spawn(fail(), "failing"), tasks.spawn(asyncio.Event().wait(), "waiting")
    waiting.cancel()
    await asyncio.wait([failing, waiting])
    await tasks.close()
    assert [record.getMessage() for record in caplog.records] == ["orbitmq failing ended with an error"]
    assert "a mistake of ours" in caplog.text


async def test_a_task_that_has_ended_is_forgotten():
    tasks = BackgroundTasks()
    ended = weakref.ref(tasks.spawn(asyncio.sleep(0), "sleeping"))
    for _ in range(3):
        await asyncio.sleep(0)
    gc.collect()
    assert ended() is None


async def test_what_waits_for_a_broker_is_given_up_when_another_one_is_master(cluster):
    cluster.topic("orders")
    cluster.a.silent.add(SendMessageV2)
    async with open_session(cluster, "orders") as found:
        waiting = asyncio.create_task(found.call("broker-a", A_SEND, timeout_ms=60_000))
        await until(lambda: any(isinstance(request, SendMessageV2) for request in cluster.a.requests))
        cluster.fail_over("orders")
        assert await found.routes.refresh("orders")
        with pytest.raises(ConnectionFailed):
            await waiting
