"""The event loop that a client belongs to, and the background tasks that run on it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from orbitmq.errors import ClientError


class OwningLoop:
    """The loop on which a client was opened; none before and after.

    Args:
        owner: the client's kind, for the error.
    """

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._loop: asyncio.AbstractEventLoop | None = None

    def settle(self) -> None:
        """Belong to the running loop from now on, unless there is a loop already."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()

    def leave(self) -> None:
        """Belong to no loop any more."""
        self._loop = None

    def check(self) -> None:
        """Make sure that the caller runs on the client's loop.

        Raises:
            ClientError: it runs on another one, or on none.
        """
        if self._loop is None:
            return
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        if running is self._loop:
            return
        state = ", which is closed" if self._loop.is_closed() else ""
        raise ClientError(
            f"this {self._owner} belongs to another event loop{state}: open one in each loop (in each asyncio.run), or use "
            "orbitmq.blocking, whose clients work from any thread"
        )


log = logging.getLogger(__name__)


class BackgroundTasks:
    """Running tasks of one client; an unexpected error is logged."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Run `work` until it ends or `close` is called."""
        task = asyncio.create_task(work, name=f"orbitmq {name}")
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    async def close(self) -> None:
        """Cancel all tasks and wait until they have ended; the one that closes goes on."""
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _finished(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("%s ended with an error", task.get_name(), exc_info=task.exception())
