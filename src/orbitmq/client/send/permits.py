"""The permits of sends: a bounded number run, and those that have begun come before those that have not."""

from __future__ import annotations

import asyncio
from collections import deque


class Permits:
    """A number of permits. A caller that finds none free waits; FIFO among those that have begun, then among the others.

    A send that has begun has its time running: behind thousands that have not, whose time begins with their turn, its
    next attempt would come too late.

    Args:
        count: how many places there are.
    """

    def __init__(self, count: int) -> None:
        self._free_count = count
        self._begun: deque[asyncio.Future[None]] = deque()
        self._new: deque[asyncio.Future[None]] = deque()

    async def take(self, *, has_begun: bool) -> None:
        """Take a place, as soon as there is one; `leave` gives it back."""
        if self._free_count:  # then there is no waiter
            self._free_count -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        (self._begun if has_begun else self._new).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # its turn came at the same moment
                self.leave()
            raise

    def leave(self) -> None:
        """Give a permit to the next waiter."""
        for waiting in (self._begun, self._new):
            while waiting:
                turn = waiting.popleft()
                if not turn.done():  # done: its waiter has gone
                    turn.set_result(None)
                    return
        self._free_count += 1
