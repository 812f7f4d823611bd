"""Claims about the event loop: uvloop where it is, asyncio's own where it is not."""

from __future__ import annotations

import asyncio
import inspect
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from cases import each_case
from orbitmq.net.loop import loop_factory, run, start_together, stopped_on_failure
from orbitmq.net.pool import ConnectionPool
from orbitmq.wire.headers import GetRouteInfo, GetTopicsByCluster

from .support import serving

pytestmark = pytest.mark.real


async def talk() -> str:
    async with serving() as server:
        pool = ConnectionPool()
        topics = [f"t{number}" for number in range(20)]
        answers = await asyncio.gather(*(pool.request(server.address, GetRouteInfo(topic=topic)) for topic in topics))
        assert [answer.body.decode() for answer in answers] == topics
        size = 3_000_000
        assert len((await pool.request(server.address, GetTopicsByCluster(cluster=str(size)))).body) == size
        await pool.close()
    return type(asyncio.get_running_loop()).__mro__[1].__module__


def test_uvloop_runs_what_it_can():
    assert run(talk()).startswith("uvloop")


def test_a_loop_with_an_open_server_closes_where_warnings_are_errors():
    """uvloop's own `close` never returns here: in a process of its own, which can be ended."""
    script = """
import asyncio, sys
from orbitmq.net.loop import loop_factory

loop = (loop_factory() or asyncio.new_event_loop)()
loop.run_until_complete(loop.create_server(asyncio.Protocol, "127.0.0.1", 0))
try:
    loop.close()
except ResourceWarning as warning:
    print(warning, loop.is_closed())
"""
    said = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, timeout=60)
    assert (said.returncode, said.stderr) == (0, "")
    assert "unclosed resource <TCPServer" in said.stdout
    assert "True" in said.stdout


class OtherThread(ThreadPoolExecutor):
    """An executor whose shutdown, in the middle of a loop's `close`, does what other threads do at that moment."""

    def __init__(self, does: Callable[[], object]) -> None:
        super().__init__()
        self._does = does

    def shutdown(self, *arguments: Any, **options: Any) -> None:
        self._does()
        super().shutdown(*arguments, **options)


def test_a_loop_that_closes_leaves_the_warnings_of_other_threads_alone():
    """`warnings.catch_warnings` restores what it found: two of them that overlap would leave the inner one's for good."""
    with warnings.catch_warnings():
        before, shown = list(warnings.filters), warnings._showwarnmsg_impl  # type: ignore[attr-defined]
        other = warnings.catch_warnings()
        loop = (loop_factory() or asyncio.new_event_loop)()
        loop.set_default_executor(OtherThread(other.__enter__))
        loop.close()
        other.__exit__(None, None, None)
        assert (warnings.filters, warnings._showwarnmsg_impl) == (before, shown)  # type: ignore[attr-defined]


@each_case(("ignore", 0), ("always", 1))
def test_an_open_server_is_told_of_once_as_the_filters_of_warnings_say(action: Any, count: int):
    loop = (loop_factory() or asyncio.new_event_loop)()
    loop.run_until_complete(loop.create_server(asyncio.Protocol, "127.0.0.1", 0))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter(action)
        loop.close()
    assert [(warning.category, "TCPServer" in str(warning.message)) for warning in told] == [
        (ResourceWarning, True)
    ] * count


def test_asyncio_runs_everything_where_uvloop_is_missing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert loop_factory() is None
    assert run(talk()).startswith("asyncio")


async def wait_for_ever() -> None:
    await asyncio.Event().wait()


@pytest.mark.usefixtures("signal_handlers")
def test_an_interrupt_that_comes_before_the_runner_counts_is_one(monkeypatch: pytest.MonkeyPatch):
    # A Spark session that lived in this process leaves a handler of its own, and asyncio respects it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    put_up = signal.signal

    def put_up_and_interrupt(number: int, handler: Any) -> Any:
        previous = put_up(number, handler)
        if handler is not signal.default_int_handler:
            signal.raise_signal(signal.SIGINT)
        return previous

    monkeypatch.setattr(signal, "signal", put_up_and_interrupt)
    main = wait_for_ever()

    with pytest.raises(KeyboardInterrupt):
        run(main)
    assert inspect.getcoroutinestate(main) == inspect.CORO_CLOSED


def test_a_main_that_cancels_itself_is_no_interrupt():
    async def give_up() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        run(give_up())


def test_a_running_loop_refuses_to_close_and_leaves_no_filter():
    before = list(warnings.filters)

    async def close() -> None:
        asyncio.get_running_loop().close()

    with pytest.raises(RuntimeError, match="running"):
        run(close())
    assert warnings.filters == before


def test_a_ctrl_c_while_the_loop_is_made_leaves_no_coroutine_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("orbitmq.net.loop.loop_factory", interrupt)
    coroutine = talk()
    with pytest.raises(KeyboardInterrupt):
        run(coroutine)
    assert inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED


async def test_of_starts_together_one_that_fails_ends_the_others_before_it_is_raised() -> None:
    ended = []

    async def fail() -> None:
        raise OSError("the port is in use")

    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("hang")

    with pytest.raises(OSError, match="in use"):
        await start_together(hang, fail, hang)
    assert ended == ["hang", "hang"]


async def test_what_a_failed_start_has_raised_is_raised_also_where_the_stop_fails() -> None:
    def stop() -> None:
        raise ValueError

    with pytest.raises(OSError, match="in use"):
        async with stopped_on_failure(stop):
            raise OSError("the port is in use")
