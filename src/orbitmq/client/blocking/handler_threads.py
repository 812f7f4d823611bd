"""The threads on which blocking consumers call their users' handlers: as many as are at work at a time."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Generic, NamedTuple, TypeVar

from orbitmq.errors import InvalidArgument

T = TypeVar("T")


class _Call(NamedTuple, Generic[T]):
    """A call that an event loop waits for."""

    argument: T
    ended: asyncio.Future[None]
    loop: asyncio.AbstractEventLoop


class HandlerThreads(Generic[T]):
    """Calls a blocking function for tasks of an event loop, each call on a thread of its own.

    A call whose task gives up goes on without a waiter: a thread cannot be cancelled. All methods
    belong on the loop's thread.

    Args:
        name: which of the consumer's handlers this is, for errors.
        handler: the function.

    Raises:
        InvalidArgument: it is not a function, or one that has to be awaited.
    """

    def __init__(self, name: str, handler: Callable[[T], object]) -> None:
        if not callable(handler):
            raise InvalidArgument(name, handler, f"a function, not {type(handler).__name__}")
        if inspect.iscoroutinefunction(handler):
            raise InvalidArgument(name, handler, "a plain function: orbitmq.PushConsumer takes async ones")
        self._name = name
        self._handler = handler
        self._idle: list[SimpleQueue[_Call[T] | None]] = []
        self._is_closed = False

    async def call(self, argument: T) -> None:
        """Call the handler on a thread, and wait for its end.

        Raises:
            Exception: what the handler raises.
        """
        loop = asyncio.get_running_loop()
        ended = loop.create_future()
        calls = self._idle.pop() if self._idle else self._start()
        calls.put(_Call(argument, ended, loop))
        await ended

    def close(self) -> None:
        """End the threads that are idle; the others end with their handlers."""
        self._is_closed = True
        for calls in self._idle:
            calls.put(None)
        self._idle.clear()

    def _start(self) -> SimpleQueue[_Call[T] | None]:
        calls: SimpleQueue[_Call[T] | None] = SimpleQueue()
        # A daemon: a handler that hangs does not keep a program from ending.
        threading.Thread(target=self._work, args=(calls,), name=f"orbitmq {self._name}", daemon=True).start()
        return calls

    def _work(self, calls: SimpleQueue[_Call[T] | None]) -> None:
        while (call := calls.get()) is not None:
            error = self._run(call.argument)
            try:
                call.loop.call_soon_threadsafe(self._end, calls, call.ended, error)
            except RuntimeError:  # the loop has ended before its handler
                return
            del call

    def _run(self, argument: T) -> BaseException | None:
        try:
            result = self._handler(argument)
        except BaseException as error:
            # sys.exit() would end this thread alone, and futures do not take StopIteration: failures as all others.
            if isinstance(error, Exception) and not isinstance(error, StopIteration):
                return error
            return RuntimeError(f"the handler raised {type(error).__name__}").with_traceback(error.__traceback__)
        if inspect.isawaitable(result):
            if inspect.iscoroutine(result):
                result.close()
            return RuntimeError(f"{self._name} has to be awaited: orbitmq.PushConsumer takes async functions")
        return None

    def _end(
        self, calls: SimpleQueue[_Call[T] | None], ended: asyncio.Future[None], error: BaseException | None
    ) -> None:
        if self._is_closed:
            calls.put(None)
        else:
            self._idle.append(calls)
        if ended.done():  # cancelled: it took too long
            return
        if error is None:
            ended.set_result(None)
        else:
            ended.set_exception(error)
