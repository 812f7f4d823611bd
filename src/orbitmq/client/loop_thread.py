"""An event loop in a thread of its own, for callers that have none.

The loop owns all state; the caller's thread only hands work over and waits. An interrupt (Ctrl-C) while it waits
cancels the work and is raised where the caller is.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, TypeVar

from orbitmq.errors import ClientError
from orbitmq.net.loop import loop_factory

T = TypeVar("T")

STOP_TIMEOUT_S = 60.0
"""How long a loop that is stopped may take to cancel its tasks, join its executor's threads and close its sockets."""


class LoopThread:
    """Runs coroutines for threads that wait for their results.

    Args:
        name: the thread's.
    """

    def __init__(self, name: str) -> None:
        self._loop = (loop_factory() or asyncio.new_event_loop)()
        self._is_stopping = False
        self._lock = threading.RLock()
        """Held while work is handed over or the loop is told to stop: what is handed over before is cancelled, not forgotten."""
        # A daemon: a script that forgets to close its client still ends.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """False once the loop has been told to stop: it may still cancel its tasks, but takes no more."""
        return not self._is_stopping and self._thread.is_alive()

    def call(self, work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """Run `work` on the loop and return its result.

        Args:
            work: the coroutine.
            timeout_s: seconds after which it is cancelled; None: never.

        Raises:
            ClientError: the loop has been stopped, or `work` has not ended in time; says where the thread is. Or the caller
                is the loop's own thread.
        """
        try:
            self._check_caller()
            with self._lock:
                if not self.is_running:
                    raise ClientError("the client is closed")
                future: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        except ClientError:
            work.close()
            raise
        try:
            return future.result(timeout_s)
        except BaseException as error:
            is_late = isinstance(error, FutureTimeoutError) and not future.done()
            future.cancel()  # does nothing to one that has ended
            if is_late:
                raise self._timeout(
                    f"{getattr(work, '__qualname__', work)} has not ended within {timeout_s} s"
                ) from None
            raise

    def apply(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call `function` on the loop's thread and return its result."""

        async def work() -> T:
            return function(*arguments)

        return self.call(work())

    def stop(self) -> None:
        """End the loop and its thread. The second time it only waits for the thread, where that has not ended yet.

        Raises:
            ClientError: the thread has not ended within `STOP_TIMEOUT_S`; says where it is. Or the caller is the loop's own
                thread.
        """
        self._check_caller()
        with self._lock:
            # Once: a second stop would end the loop while it still cancels its tasks.
            if self.is_running:
                self._is_stopping = True
                self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(STOP_TIMEOUT_S)
        if self._thread.is_alive():
            raise self._timeout(f"the loop has not ended within {STOP_TIMEOUT_S} s")

    def _check_caller(self) -> None:
        if threading.current_thread() is self._thread:
            raise ClientError(f"{self._thread.name}: its own thread cannot wait for it")

    def _timeout(self, what: str) -> ClientError:
        frame = sys._current_frames().get(self._thread.ident or 0)
        stack = "".join(traceback.format_stack(frame)) if frame is not None else "(it has just ended)"
        return ClientError(f"{self._thread.name}: {what}; its thread is at\n{stack}")

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            tasks = asyncio.all_tasks(self._loop)
            for task in tasks:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()
