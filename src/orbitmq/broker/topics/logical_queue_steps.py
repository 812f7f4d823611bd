"""A logical queue as its leader knows it, and the questions about the queues behind it. Pure.

What a request about a logical queue needs is a generator of questions: its driver asks this broker or another one.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple

from orbitmq.model.static_topic import Items, MappingItem
from orbitmq.net.dispatch.reply import Reply


class LogicalQueue(NamedTuple):
    """A logical queue that this broker leads."""

    topic: str
    queue_id: int
    items: Items

    @property
    def leader(self) -> MappingItem:
        """The item that takes what is sent."""
        return self.items[-1]


class ItemRequest(NamedTuple):
    """A question about the queue of one item.

    Args:
        header: as another broker gets it.
        answer_type: of the header that the answer has; None: it has none.
    """

    item: MappingItem
    code: int
    header: Any
    answer_type: type | None


Steps = Generator[ItemRequest, Reply, Reply]
"""Yields questions, gets their answers, and returns the answer for the logical queue."""
