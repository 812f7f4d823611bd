"""Turns of the event loop that connections share: the backlog of one peer does not keep the others waiting."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from time import perf_counter

TURN_COUNT = 32
"""Requests of one connection after which others have their turn: under a millisecond of most kinds."""
TURN_S = 0.002
"""So do they when these took longer, as requests do that write a file."""
_ROUND_S = 0.005
_ROUND_COST = 4 * TURN_COUNT
_COST_SIZE = 16 * 1024
"""Bytes of answers that cost as much as a request does."""


class TimeSlices:
    """Connections with requests that were read and not served yet; one after another serves some of them.

    In each turn of the loop a few connections serve, and then the other tasks of the loop: a new request waits
    for some milliseconds at most, however much has been piled up by however many peers.

    Args:
        clock: seconds, for what takes longer than usual.
    """

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self.clock = clock
        self._waiting: deque[Callable[[], int]] = deque()
        self._is_scheduled = False

    def wait(self, serve: Callable[[], int], loop: asyncio.AbstractEventLoop) -> None:
        """Call `serve` when it is its turn; it serves some requests and returns their cost (see `cost_of`)."""
        self._waiting.append(serve)
        if not self._is_scheduled:
            self._is_scheduled = True
            loop.call_soon(self._run, loop)

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        self._is_scheduled = False
        cost, ends = 0, self.clock() + _ROUND_S
        while self._waiting and cost < _ROUND_COST and self.clock() < ends:
            # A connection with more to serve waits again, behind all others.
            self._is_scheduled = True
            cost += self._waiting.popleft()()
            self._is_scheduled = False
        if self._waiting:
            self._is_scheduled = True
            loop.call_soon(self._run, loop)


def cost_of(count: int, size: int) -> int:
    """Return what requests cost, with answers of `size` bytes in all; 1 is a request with a small answer."""
    return count + size // _COST_SIZE
