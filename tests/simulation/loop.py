"""An asyncio event loop whose time is virtual and whose I/O is simulated: it never waits, and does everything in one order.

Everything that runs in it belongs to a `Process` of some machine, or to the world that looks on. What belongs to a process
that was killed never runs again; what belongs to one that is stopped (SIGSTOP) runs when it goes on.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simulation.machines import Process
    from simulation.network import Network

PROCESS: ContextVar[Process | None] = ContextVar("PROCESS", default=None)
"""The process that runs now; None: the world."""


class Stuck(Exception):
    """All tasks wait for something, and nothing is left that could happen."""


class _Guarded:
    """A callback of a process: passed over when it is dead, kept while it is stopped."""

    __slots__ = ("act", "handle", "process")

    def __init__(self, act: Callable[..., Any], process: Process) -> None:
        self.act = act
        self.process = process
        self.handle: asyncio.Handle | None = None

    def __call__(self, *arguments: Any) -> None:
        if self.process.is_dead or (self.handle is not None and self.handle.cancelled()):
            return
        if self.process.is_stopped:
            self.process.held.append((self, arguments))
        else:
            self.act(*arguments)


class _Time:
    """Stands where the selector would: to wait for I/O is to let time go by."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise Stuck("nothing is left that could happen")
        self._loop.now_s += timeout
        return []

    def close(self) -> None:
        """Nothing is open."""


class SimLoop(asyncio.BaseEventLoop):
    """The loop. `network` and `work_s` are the world's to set."""

    network: Network
    work_s: Callable[[], float]
    """How long a thread takes for a piece of work."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self._selector = _Time(self)
        self._clock_resolution = 1e-6
        self.complaints: list[str] = []
        """Uncaught errors."""
        self.set_exception_handler(self._complain)
        self.set_task_factory(_make_task)

    def time(self) -> float:
        return self.now_s

    def call_soon(  # type: ignore[override]
        self, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        context, guarded = _guard(callback, context)
        handle = super().call_soon(guarded or callback, *args, context=context)
        if guarded is not None:
            guarded.handle = handle
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        context, guarded = _guard(callback, context)
        handle = super().call_at(when, guarded or callback, *args, context=context)
        if guarded is not None:
            guarded.handle = handle
        return handle

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        future = self.create_future()

        def work() -> None:
            found, failure = None, None
            try:
                found = func(*args)
            except Exception as error:
                failure = error
            if future.cancelled():  # a thread does its work all the same
                return
            if failure is not None:
                future.set_exception(failure)
            else:
                future.set_result(found)

        self.call_later(self.work_s(), work)
        return future

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port))]

    async def create_server(self, protocol_factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:
        return self.network.listen(protocol_factory, host, port)

    async def create_connection(
        self, protocol_factory: Any, host: Any = None, port: Any = None, *, ssl: Any = None, **_: Any
    ) -> Any:
        assert ssl is None, "TLS is not simulated"
        return await self.network.connect(protocol_factory, host, port)

    def _process_events(self, event_list: list[Any]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Nothing sleeps in a selector."""

    def _complain(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        process = PROCESS.get()
        error = context.get("exception")
        about = context.get("task") or context.get("future") or ""
        self.complaints.append(f"{process}: {context.get('message')}: {error!r} {about}")


def _guard(callback: Any, context: Context | None) -> tuple[Context, _Guarded | None]:
    context = context or copy_context()
    process = context.get(PROCESS)
    return context, None if process is None else _Guarded(callback, process)


def _make_task(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
    task: asyncio.Task[Any] = asyncio.Task(coroutine, loop=loop, **options)
    process = PROCESS.get()
    if process is not None:
        process.tasks.add(task)
    return task
