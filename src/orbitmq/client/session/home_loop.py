"""The event loop that a client belongs to: its connections and tasks live there, and nobody may touch them from another."""

from __future__ import annotations

import asyncio

from orbitmq.errors import ClientError


class HomeLoop:
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
