"""Static topics: logical queues whose numbers and offsets stay the same while the queues behind them move. Pure.

A logical queue is a list of items. Each item is a queue of one broker, and says at which logical offset it begins; the
last one is the leader, which takes what is sent. An item whose logical offset is below 0 is not decided yet: it takes
messages that cannot be read by now.

Source: Java LogicQueueMappingItem, TopicQueueMappingDetail, TopicQueueMappingUtils.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from orbitmq.errors import InvalidArgument

GLOBAL_SCOPE = "__global__"
LOGICAL_BROKER_PREFIX = "__syslo__"
"""The names of the brokers that clients see logical queues on begin with this (Java: LOGICAL_QUEUE_MOCK_BROKER_PREFIX)."""


class MappingItem(NamedTuple):
    """A queue of a broker as a part of a logical queue; offsets of -1 are not decided."""

    generation: int
    queue_id: int
    broker_name: str
    logic_offset: int
    start_offset: int = 0
    end_offset: int = -1
    started_at_ms: int = -1
    ended_at_ms: int = -1

    @property
    def is_decided(self) -> bool:
        """True when it is known at which logical offset the item begins."""
        return self.logic_offset >= 0

    @property
    def has_end(self) -> bool:
        """True when it is known where the item ends."""
        return self.end_offset > self.start_offset

    @property
    def logic_end(self) -> int:
        """The logical offset at which the item ends; where that is not known, the one at which it begins."""
        if self.end_offset >= self.start_offset:
            return self.logic_offset + self.end_offset - self.start_offset
        return self.logic_offset

    def logical(self, queue_offset: int) -> int:
        """Return the logical offset of an offset in the item's own queue."""
        return self.logic_offset + max(0, queue_offset - self.start_offset)

    def logical_loosely(self, queue_offset: int) -> int:
        """Return the same, but not beyond the item's end; -1 for an item that is not decided."""
        if not self.is_decided:
            return -1
        if self.start_offset <= self.end_offset < queue_offset:
            return self.logic_end
        return self.logical(queue_offset)

    def physical(self, logic_offset: int) -> int:
        """Return the offset in the item's own queue of a logical one."""
        return logic_offset - self.logic_offset + self.start_offset


Items = tuple[MappingItem, ...]
"""A logical queue, from its oldest item to the leader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueMapping:
    """What one broker knows of a static topic: the logical queues that it leads now, or that it led before.

    `queue_count` is the topic's, on all brokers together. `epoch` fences changes off that are older.
    """

    topic: str
    broker_name: str
    queue_count: int
    epoch: int
    scope: str = GLOBAL_SCOPE
    is_dirty: bool = False
    queues: Mapping[int, Items] = field(default_factory=dict)

    @property
    def led(self) -> dict[int, int]:
        """The logical queues that the broker leads, each with its own queue's number."""
        return {
            queue_id: items[-1].queue_id
            for queue_id, items in self.queues.items()
            if items and items[-1].broker_name == self.broker_name
        }


def logical_broker(scope: str) -> str:
    """Return the name of the broker that clients see logical queues on."""
    return LOGICAL_BROKER_PREFIX + (scope[2:] if scope == GLOBAL_SCOPE else scope)


def item_at(items: Items, logic_offset: int) -> MappingItem | None:
    """Return the decided item that a logical offset lies in; the oldest one for an offset before all of them."""
    decided = [item for item in items if item.is_decided]
    for item in reversed(decided):
        if logic_offset >= item.logic_offset:
            return item
    return decided[0] if decided else None


def item_after(items: Items, item: MappingItem) -> MappingItem | None:
    """Return the next item when it is decided."""
    for found, following in pairwise(items):
        if found.generation == item.generation:
            return following if following.is_decided else None
    return None


def check_items(items: Items) -> None:
    """Refuse items that make no logical queue.

    Raises:
        InvalidArgument: a negative number, a generation or an offset that does not grow, an older item without an offset.

    Source: Java TopicQueueMappingUtils.checkLogicQueueMappingItemOffset.
    """
    for item in items:
        for name, value in (("startOffset", item.start_offset), ("gen", item.generation), ("queueId", item.queue_id)):
            if value < 0:
                raise InvalidArgument(name, value, "a number that is not negative")
        if item.end_offset != -1 and item.end_offset < item.start_offset:
            raise InvalidArgument("endOffset", item.end_offset, f"-1, or startOffset = {item.start_offset} or more")
    for item, following in pairwise(items):
        if not item.is_decided:
            raise InvalidArgument("logicOffset", item.logic_offset, "an offset, but for the last item of a queue")
        if following.generation <= item.generation:
            raise InvalidArgument("gen", following.generation, f"more than {item.generation}, the item's before it")
        if following.is_decided and following.logic_offset <= max(item.logic_offset, item.logic_end):
            raise InvalidArgument(
                "logicOffset", following.logic_offset, f"more than {item.logic_end}, where the item before it ends"
            )


def check_successors(old: Items, new: Items, *, is_same_epoch: bool) -> None:
    """Refuse items that contradict those that were known: what a generation says stands, once it is decided.

    Raises:
        InvalidArgument: another queue, start or offset under a known generation; another leader in the same epoch.

    Source: Java TopicQueueMappingUtils.makeSureLogicQueueMappingItemImmutable.
    """
    if not old:
        return
    if not new:
        raise InvalidArgument("hostedQueues", "[]", "the items that are known")
    known = {item.generation: item for item in old}
    for item in new:
        before = known.get(item.generation)
        if before is None:
            continue
        if _place(item) != _place(before) or (before.is_decided and item.logic_offset != before.logic_offset):
            raise InvalidArgument("hostedQueues", item, f"what is known of generation {item.generation}: {before}")
    if is_same_epoch and (new[-1].generation, *_place(new[-1])) != (old[-1].generation, *_place(old[-1])):
        raise InvalidArgument("hostedQueues", new[-1], f"the leader of this epoch, {old[-1]}")


def _place(item: MappingItem) -> tuple[str, int, int]:
    return item.broker_name, item.queue_id, item.start_offset
