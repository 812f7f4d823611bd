"""Claims about the shared side of connections, with connections that do what the test says."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from orbitmq.net.connection.endpoint import Endpoint, OpenConnection
from orbitmq.net.counters import Counters
from orbitmq.net.dispatch.dispatcher import Dispatcher
from orbitmq.net.limits import Limits
from waiting import until

from .fakes import FakeLoop


class FakeConnection:
    """Ends immediately when it is killed; when it is closed, only if its peer reads."""

    def __init__(self, endpoint: Endpoint, *, reads: bool = True) -> None:
        self.id = endpoint.next_id()
        self.remote = f"10.0.0.1:{self.id}"
        self.pending_count = 0
        self.ticks: list[int] = []
        self.was_killed = False
        self._endpoint = endpoint
        self._reads = reads

    def close(self) -> None:
        if self._reads:
            asyncio.get_running_loop().call_soon(self.leave)

    def kill(self) -> None:
        self.was_killed = True
        asyncio.get_running_loop().call_soon(self.leave)

    def leave(self) -> None:
        self._endpoint.forget(cast(OpenConnection, self), "10.0.0.1")

    def tick(self, elapsed_ms: int) -> None:
        self.ticks.append(elapsed_ms)


def endpoint_of(**options: Any) -> Endpoint:
    counters = Counters()
    dispatcher = Dispatcher(None, None, name="test", counters=counters, clock=lambda: 0)
    return Endpoint(dispatcher, name="test", counters=counters, **options)


def enter(endpoint: Endpoint, **options: Any) -> FakeConnection:
    connection = FakeConnection(endpoint, **options)
    assert endpoint.admit(cast(OpenConnection, connection), "10.0.0.1") is None
    return connection


async def test_closing_kills_who_does_not_read_once_its_time_is_over():
    endpoint = endpoint_of()
    polite, deaf = enter(endpoint), enter(endpoint, reads=False)
    async with asyncio.timeout(10):
        await endpoint.close_connections(grace_ms=5)
    assert (polite.was_killed, deaf.was_killed) == (False, True)
    assert (endpoint.connections, endpoint.counters.connections_closed) == ({}, 2)


async def test_closing_does_not_wait_when_all_go():
    endpoint = endpoint_of()
    enter(endpoint)
    async with asyncio.timeout(10):
        await endpoint.close_connections(grace_ms=3_600_000)
    assert endpoint.connections == {}


async def test_a_condition_is_looked_at_after_each_late_answer():
    endpoint = endpoint_of()
    connection = enter(endpoint)
    connection.pending_count = 2
    assert not endpoint.is_awaited
    waiting = asyncio.ensure_future(endpoint.wait_until(lambda: not endpoint.pending_count))
    for left in (1, 0):
        await asyncio.sleep(0)
        assert endpoint.is_awaited
        assert not waiting.done()
        connection.pending_count = left
        endpoint.note_change()
    await waiting
    assert not endpoint.is_awaited


async def test_all_listeners_are_told_once_of_a_lost_connection():
    endpoint, lost = endpoint_of(), []
    for name in ("a", "b"):
        endpoint.on_connection_lost(lambda peer, name=name: lost.append((name, peer.remote)))
    connection = enter(endpoint)
    connection.leave()
    connection.leave()
    assert lost == [("a", "10.0.0.1:1"), ("b", "10.0.0.1:1")]
    assert endpoint.counters.connections_closed == 1


def test_a_limit_counts_the_connections_of_now():
    endpoint = endpoint_of(limits=Limits(connections_max=3, connections_per_address_max=2))
    first, _ = enter(endpoint), enter(endpoint)
    third, fourth = (cast(OpenConnection, FakeConnection(endpoint)) for _ in range(2))
    assert endpoint.admit(third, "10.0.0.1") == "2 connections from 10.0.0.1 are open"
    assert endpoint.admit(third, "10.0.0.2") is None
    assert endpoint.admit(fourth, "10.0.0.3") == "3 connections are open"
    first.leave()
    assert endpoint.admit(fourth, "10.0.0.1") is None


@pytest.mark.parametrize(
    ("limits", "tick_ms"),
    [(Limits(idle_ms=80, frame_ms=160, write_stall_ms=0), 10), (Limits(idle_ms=0, frame_ms=1, write_stall_ms=160), 1)],
)
async def test_connections_are_looked_at_eight_times_within_the_shortest_limit(limits: Limits, tick_ms: int):
    endpoint = endpoint_of(limits=limits)
    connection = enter(endpoint)
    endpoint.start_timeouts(asyncio.get_running_loop())
    endpoint.start_timeouts(asyncio.get_running_loop())
    async with asyncio.timeout(10):
        await until(lambda: len(connection.ticks) >= 2)
    assert set(connection.ticks) == {tick_ms}
    await endpoint.close_connections()


async def test_without_time_limits_no_connection_is_checked():
    endpoint = endpoint_of(limits=Limits(idle_ms=0, frame_ms=0, write_stall_ms=0))
    endpoint.start_timeouts(asyncio.get_running_loop())
    assert endpoint._timer is None


async def test_no_broker_is_checked_after_the_end():
    endpoint, loop = endpoint_of(), FakeLoop()
    endpoint.start_timeouts(cast(asyncio.AbstractEventLoop, loop))
    loop.fire()
    assert len(loop.waiting) == 1
    await endpoint.close_connections()
    assert loop.waiting == []
    await endpoint.close_connections()


async def test_the_clean_up_of_a_cancelled_task_waits_and_closes_as_any_other():
    """The standard library's `timeout` does not end as one there, up to Python 3.11.3."""
    endpoint, seen = endpoint_of(), []
    deaf = enter(endpoint, reads=False)

    async def clean_up() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            seen.append(await endpoint.wait_until(lambda: False, timeout_ms=5))
            await endpoint.close_connections(grace_ms=5)
            seen.append(deaf.was_killed)

    task = asyncio.ensure_future(clean_up())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (seen, endpoint.connections) == ([False, True], {})


async def test_what_is_so_already_needs_no_time():
    endpoint = endpoint_of()
    assert await endpoint.wait_until(lambda: True, timeout_ms=0)
    assert await endpoint.wait_until(lambda: True)
    assert not endpoint.is_awaited


def test_a_wait_that_is_over_leaves_no_timer():
    timers: list[asyncio.TimerHandle] = []

    async def wait() -> None:
        assert await endpoint_of().wait_until(lambda: True, timeout_ms=3_600_000)

    with asyncio.Runner() as runner:  # asyncio's own loop: uvloop's cannot be watched
        loop = runner.get_loop()
        call_later = loop.call_later
        loop.call_later = lambda *call: timers.append(call_later(*call)) or timers[-1]  # type: ignore[method-assign,assignment,func-returns-value]
        runner.run(wait())
    assert [timer.cancelled() for timer in timers] == [True]
