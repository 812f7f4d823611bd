"""The contract of what keeps a group's offsets: the brokers, or a file.

Source: Java OffsetStore.
"""

from __future__ import annotations

from typing import Protocol

from orbitmq.model.route import MessageQueue


class OffsetStore(Protocol):
    """Keeps how far a group has come in each queue."""

    async def load(self, queue: MessageQueue) -> int | None:
        """Return the group's offset in `queue`, None when there is none."""
        ...

    async def store(self, queue: MessageQueue, queue_offset: int) -> None:
        """Keep the group's offset in `queue`."""
        ...
