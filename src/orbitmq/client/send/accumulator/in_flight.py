"""The messages that were given to `send_soon` and are not answered: how many, how large, and what failed.

Their number and size are bounded, so that a producer that is faster than its brokers waits instead of filling the
memory.
"""

from __future__ import annotations

import asyncio

from orbitmq.errors import OrbitError, SendFailed

CAUSES_MAX = 10
"""Errors that are kept for the next flush: enough to see a pattern, whatever the number of failed messages."""


class InFlight:
    """Counts messages of all queues together.

    Args:
        count_max: messages from which on callers wait.
        size_max: bytes from which on callers wait.
    """

    def __init__(self, *, count_max: int, size_max: int) -> None:
        self.has_room = True
        self._count_max = count_max
        self._size_max = size_max
        self._count = 0
        self._size = 0
        self._room = asyncio.Event()
        self._idle = asyncio.Event()
        self._failed_count = 0
        self._causes: list[OrbitError] = []

    def add(self, size: int, count: int = 1) -> None:
        """Count one message in, or several that travel together."""
        self._count += count
        self._size += size
        if self._count >= self._count_max or self._size >= self._size_max:
            self.has_room = False

    def remove(self, count: int, size: int) -> None:
        """Count messages out: they were answered, or given up."""
        self._count -= count
        self._size -= size
        # Callers go on when half is free, not with the first free slot: so they fill batches, not single requests.
        if not self.has_room and self._count <= self._count_max // 2 and self._size <= self._size_max // 2:
            self.has_room = True
            self._room.set()
        if not self._count:
            self._idle.set()

    def record_failure(self, error: OrbitError, count: int) -> None:
        """Keep the error of `count` messages for the next flush."""
        self._failed_count += count
        if len(self._causes) < CAUSES_MAX:
            self._causes.append(error)

    async def wait_for_room(self) -> None:
        """Wait until there is room again."""
        while not self.has_room:
            self._room.clear()
            await self._room.wait()

    async def flush(self) -> None:
        """Wait until nothing is in flight.

        Raises:
            SendFailed: messages failed since the last flush.
        """
        while self._count:
            self._idle.clear()
            await self._idle.wait()
        count, causes = self._failed_count, self._causes
        self._failed_count, self._causes = 0, []
        if count:
            raise SendFailed(f"{count} messages given to send_soon were not sent. The first error: {causes[0]}", causes)
