"""Claims about the client side: one connection per address, requests with time-outs, servers that ask back."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from cases import each_case
from orbitmq.errors import ConnectionFailed, InvalidArgument, RemoteRefused, RequestTimeout
from orbitmq.net.connection.connection import Connection
from orbitmq.net.dispatch.handlers import LATER, Call, Handlers, Reply
from orbitmq.net.pool import ConnectionPool, expect
from orbitmq.net.security.tls import client_context
from orbitmq.net.server import Server
from orbitmq.wire.command import Command
from orbitmq.wire.headers import GetAllTopics, GetClusterInfo, GetRouteInfo, NotifyConsumerIdsChanged
from waiting import until

from .certificates import Authority
from .support import EchoService, serving

pytestmark = pytest.mark.real


@pytest.fixture
def server() -> AbstractAsyncContextManager[Server[EchoService]]:
    """A server that runs while the test does."""
    return serving()


@pytest.fixture
@asynccontextmanager
async def pool() -> AsyncIterator[ConnectionPool]:
    pool = ConnectionPool()
    yield pool
    await pool.close()


async def test_concurrent_requests_share_one_connection_and_its_writes(server: Server, pool: ConnectionPool):
    topics = [f"t{number}" for number in range(50)]
    answers = await asyncio.gather(*(pool.request(server.address, GetRouteInfo(topic=topic)) for topic in topics))

    assert [answer.body.decode() for answer in answers] == topics
    assert server.counters.connections_opened == 1
    assert pool.addresses == (server.address,)


async def test_listeners_are_told_of_new_connections_and_of_those_alone():
    async with serving() as server:
        pool, told = ConnectionPool(), []
        pool.on_connected(told.append)
        with pytest.raises(ConnectionFailed):
            await pool.connect("127.0.0.1:1")
        for _ in range(2):
            await pool.request(server.address, GetRouteInfo(topic="t"))
        pool.close_address(server.address)
        await pool.request(server.address, GetRouteInfo(topic="t"))
        await pool.close()
    assert told == [server.address] * 2


async def test_any_code_is_an_answer_and_expect_turns_it_into_an_error(server: Server, pool: ConnectionPool):
    answer = await pool.request(server.address, GetAllTopics())
    assert answer.code == 1
    with pytest.raises(RemoteRefused, match="answered code 1: ZeroDivisionError") as refused:
        expect(answer, server.address)
    assert refused.value.address == server.address
    assert expect(Command(0), "a") == Command(0)


async def test_a_request_without_an_answer_ends_with_its_time(server: Server, pool: ConnectionPool):
    await pool.connect(server.address)  # the time is for the answer alone
    with pytest.raises(RequestTimeout, match=server.address):
        await pool.request(server.address, GetClusterInfo(), timeout_ms=20)


async def test_a_broken_connection_fails_who_waits_and_the_next_request_connects_again(
    server: Server, pool: ConnectionPool
):
    waiting = asyncio.ensure_future(pool.request(server.address, GetClusterInfo()))
    await server.service.arrived.wait()
    (connection,) = server.connections
    connection.close()
    with pytest.raises(ConnectionFailed, match="broke before the answer"):
        await waiting
    assert (await pool.request(server.address, GetRouteInfo(topic="again"))).body == b"again"


async def test_a_missing_listener_is_said_with_the_address():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        pool = ConnectionPool()
        with pytest.raises(ConnectionFailed, match=address):
            await pool.request(address, GetRouteInfo(topic="t"))
        await pool.close()


async def test_a_bad_address_is_refused(pool: ConnectionPool):
    with pytest.raises(InvalidArgument):
        await pool.request("nowhere", GetRouteInfo(topic="t"))


async def test_the_server_may_ask_its_client():
    asked = asyncio.Event()
    handlers: Handlers[str] = Handlers()

    @handlers.on(NotifyConsumerIdsChanged)
    def changed(service: str, call: Call[NotifyConsumerIdsChanged]) -> Reply:
        asked.set()
        return Reply(body=service.encode() + call.header.consumer_group.encode())

    async with serving() as server:
        pool = ConnectionPool(handlers, "client:")
        await pool.request(server.address, GetRouteInfo(topic="t"))
        (connection,) = server.connections
        answer = await connection.request(NotifyConsumerIdsChanged(consumer_group="g"), timeout_ms=5000)
        assert answer.body == b"client:g"
        asked.clear()
        connection.send_oneway(NotifyConsumerIdsChanged(consumer_group="g"))
        await asked.wait()
        refused = await connection.request(GetClusterInfo(), timeout_ms=5000)
        assert refused.code == 3
        await pool.close()


async def test_oneway_needs_no_answer(server: Server, pool: ConnectionPool):
    await pool.oneway(server.address, GetRouteInfo(topic="quiet"))
    await server.service.arrived.wait()
    assert (server.service.seen, server.counters.bytes_sent) == (["quiet"], 0)


async def test_closing_an_address_closes_only_that():
    async with serving() as one, serving() as two:
        pool = ConnectionPool()
        for server in (one, two):
            await pool.request(server.address, GetRouteInfo(topic="t"))
        pool.close_address(one.address)
        pool.close_address("unknown:1")
        await until(lambda: not one.connections)
        assert pool.addresses == (two.address,)
        await pool.close()


async def test_a_closed_pool_fails_what_waits_and_takes_nothing_new(server: Server, pool: ConnectionPool):
    waiting = asyncio.ensure_future(pool.request(server.address, GetClusterInfo()))
    await server.service.arrived.wait()
    await pool.close()
    with pytest.raises(ConnectionFailed):
        await waiting
    with pytest.raises(ConnectionFailed, match="the pool is closed"):
        await pool.request(server.address, GetRouteInfo(topic="t"))


async def test_a_cancelled_caller_does_not_take_the_connection_from_the_others(server: Server, pool: ConnectionPool):
    first = asyncio.ensure_future(pool.request(server.address, GetRouteInfo(topic="one")))
    second = asyncio.ensure_future(pool.request(server.address, GetRouteInfo(topic="two")))
    await asyncio.sleep(0)
    first.cancel()
    assert (await second).body == b"two"


async def test_a_request_that_a_draining_server_sends_away_is_sent_again_once_through_a_new_connection():
    handlers: Handlers[list[int]] = Handlers()
    handlers.on(GetRouteInfo)(lambda codes, call: Reply(codes.pop(0)))
    codes = [1500, 0, 1500, 1500]
    server = Server(handlers, codes, name="test")
    await server.start("127.0.0.1", 0)
    pool = ConnectionPool()
    old = await pool.connect(server.address)

    assert (await pool.request(server.address, GetRouteInfo(topic="t"))).code == 0
    assert old.is_closed
    assert (await pool.request(server.address, GetRouteInfo(topic="t"))).code == 1500
    assert codes == []
    await pool.close()
    await server.close()


async def test_an_attempt_that_ends_in_the_turn_in_which_it_connects_leaves_nothing_behind(
    server: Server, pool: ConnectionPool
):
    connecting = asyncio.ensure_future(pool.connect(server.address))
    await until(lambda: pool._endpoint.connections)  # connection_made has been called, and it is unknown it yet
    (attempt,) = pool._opening.values()
    attempt.cancel()  # as the end of its time does

    with pytest.raises(asyncio.CancelledError):
        await connecting
    await pool.close()
    assert pool.counters.connections_closed == pool.counters.connections_opened == 1


async def test_a_caller_that_is_cancelled_when_the_connection_is_there_stays_cancelled(
    server: Server, pool: ConnectionPool
):
    caller, attempt = await connecting(pool, server.address)
    attempt.add_done_callback(lambda _: caller.cancel())  # in the turn in which the attempt succeeds
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert not attempt.cancelled()
    assert pool.addresses == (server.address,)


async def test_a_caller_that_is_cancelled_when_the_pool_closes_stays_cancelled(server: Server, pool: ConnectionPool):
    caller, attempt = await connecting(pool, server.address)
    attempt.add_done_callback(lambda _: caller.cancel())
    await pool.close()
    assert attempt.cancelled()
    with pytest.raises(asyncio.CancelledError):
        await caller


async def test_a_caller_that_connects_when_the_pool_closes_is_told_so(server: Server, pool: ConnectionPool):
    caller, _ = await connecting(pool, server.address)
    await pool.close()
    with pytest.raises(ConnectionFailed, match="the pool was closed"):
        await caller


async def connecting(pool: ConnectionPool, address: str) -> tuple[asyncio.Task[Connection], asyncio.Task[Connection]]:
    """Return a caller that waits for a connection, and the pool's own task that opens it."""
    others = asyncio.all_tasks()
    caller = asyncio.ensure_future(pool.connect(address))
    await asyncio.sleep(0)
    (attempt,) = asyncio.all_tasks() - others - {caller}
    return caller, attempt


@pytest.mark.parametrize(("timeout_ms", "pool_ms"), [(20, 60_000), (60_000, 20), (None, 20)])
async def test_who_never_answers_a_handshake_is_given_up_in_the_callers_time_or_the_pools(
    timeout_ms: int | None, pool_ms: int, tmp_path: Path
):
    context = client_context(Authority(tmp_path).issue("server"))
    with socket.create_server(("127.0.0.1", 0)) as full_backlog:
        address = f"127.0.0.1:{full_backlog.getsockname()[1]}"
        pool = ConnectionPool(tls=context, connect_timeout_ms=pool_ms)
        with pytest.raises(ConnectionFailed, match="no answer within 20 ms"):
            await pool.connect(address, timeout_ms=timeout_ms)
        await pool.close()
        assert pool.addresses == ()


async def test_a_failed_attempt_is_not_the_last(server: Server, pool: ConnectionPool):
    caller, attempt = await connecting(pool, server.address)
    attempt.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert (await pool.request(server.address, GetRouteInfo(topic="again"))).body == b"again"


async def test_a_listener_is_told_of_a_lost_connection(server: Server):
    pool, lost = ConnectionPool(), []
    pool.on_connection_lost(lambda peer: lost.append(peer.remote))
    await pool.request(server.address, GetRouteInfo(topic="t"))
    await pool.close()
    assert lost == [server.address]
    assert pool.addresses == ()


class Clock:
    """A loop's clock, which only the test moves; a loop of asyncio's own, since uvloop's has its clock inside."""

    def __init__(self) -> None:
        self.now = 100.0

    def advance(self, seconds: float) -> None:
        self.now += seconds

    def run(self, main: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner() as runner:
            runner.get_loop().time = lambda: self.now  # type: ignore[method-assign]
            runner.run(main)


@each_case((1.0, False), (0.9995, True))
def test_a_request_that_connecting_left_no_time_for_is_not_sent(seconds: float, is_sent: bool):
    clock = Clock()

    async def play() -> None:
        async with serving() as server:
            pool = ConnectionPool()
            others = asyncio.all_tasks()
            caller = asyncio.ensure_future(pool.request(server.address, GetRouteInfo(topic="t"), timeout_ms=1000))
            await asyncio.sleep(0)
            (attempt,) = asyncio.all_tasks() - others - {caller}
            attempt.add_done_callback(lambda _: clock.advance(seconds))
            if is_sent:
                assert (await caller).body == b"t"
            else:
                with pytest.raises(RequestTimeout, match="took all the time to connect"):
                    await caller
                assert server.service.seen == []
            await pool.close()

    clock.run(play())


@each_case((1.0, 1500), (0.999, 0))
def test_a_request_that_was_sent_away_is_sent_again_while_there_is_time(seconds: float, code: int):
    clock, handlers, replies = Clock(), Handlers(), [Reply(1500), Reply(0)]

    @handlers.on(GetRouteInfo)
    def answer(service: None, call: Call[GetRouteInfo]) -> Reply:
        clock.advance(seconds if len(replies) == 2 else 0)
        return replies.pop(0)

    async def play() -> None:
        server, pool = Server(handlers, None, name="test"), ConnectionPool()
        await server.start("127.0.0.1", 0)
        assert (await pool.request(server.address, GetRouteInfo(topic="t"), timeout_ms=1000)).code == code
        await pool.close()
        await server.close()

    clock.run(play())


def test_a_request_that_is_sent_again_has_only_the_rest_of_its_time():
    clock, handlers, replies = Clock(), Handlers(), [Reply(1500), LATER]

    @handlers.on(GetRouteInfo)
    def answer(service: None, call: Call[GetRouteInfo]) -> Any:
        clock.advance(0.6)
        return replies.pop(0)

    async def play() -> None:
        server, pool = Server(handlers, None, name="test"), ConnectionPool()
        await server.start("127.0.0.1", 0)
        with pytest.raises(RequestTimeout):
            await pool.request(server.address, GetRouteInfo(topic="t"), timeout_ms=1000)
        assert replies == []
        await pool.close()
        await server.close()

    clock.run(play())


async def test_the_clean_up_of_a_cancelled_task_is_told_of_a_peer_that_does_not_answer(tmp_path: Path):
    context = client_context(Authority(tmp_path).issue("server"))
    with socket.create_server(("127.0.0.1", 0)) as full_backlog:
        address = f"127.0.0.1:{full_backlog.getsockname()[1]}"
        pool, told = ConnectionPool(tls=context), []

        async def clean_up() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                try:
                    await pool.connect(address, timeout_ms=20)
                except ConnectionFailed as error:
                    told.append(str(error))

        task = asyncio.ensure_future(clean_up())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert told == [f"cannot connect to {address}: no answer within 20 ms"]
        await pool.close()
