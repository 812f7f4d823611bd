"""Dispatch: from the CommitLog to what is derived from it. Pure.

State: messages that were appended and may not be read yet. In: messages in the order of the log, and how far the log
is readable. Out: each message once, in order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator

from orbitmq.model.delay_levels import DELAY_LEVELS, DelayLevels
from orbitmq.model.message import SysFlag
from orbitmq.model.topic import SCHEDULE_TOPIC
from orbitmq.store.values import Dispatched
from orbitmq.wire.messages.properties import find_property, tag_code
from orbitmq.wire.messages.record import Record

_DIGITS_MAX = 9


class Dispatch:
    """Keeps messages until they are readable."""

    def __init__(self) -> None:
        self._pending: deque[Dispatched] = deque()

    def __len__(self) -> int:
        """Count the messages that cannot be read yet."""
        return len(self._pending)

    @property
    def first(self) -> Dispatched | None:
        """The first message that cannot be read yet."""
        return self._pending[0] if self._pending else None

    def hold(self, message: Dispatched) -> None:
        """Keep a message until the log is readable past its end."""
        self._pending.append(message)

    def forget(self, topic: str, others: Callable[[Dispatched], Iterable[Dispatched]] = lambda _message: ()) -> None:
        """Drop what waits for a topic that is being deleted.

        Args:
            others: says under which other queues a message is awaited still.
        """
        kept: deque[Dispatched] = deque()
        for message in self._pending:
            kept.extend((message,) if message.topic != topic else others(message))
        self._pending = kept

    def take_readable(self, readable: int) -> Iterator[Dispatched]:
        """Yield every message that ends before `readable` (bytes in the log).

        Nothing that a power cut could take back is shown to a reader (apache/rocketmq#8239).
        """
        pending = self._pending
        while pending and pending[0].physical_offset + pending[0].size <= readable:
            yield pending.popleft()


def is_queued(sys_flag: int) -> bool:
    """Return True if a message gets a consume-queue entry: half and rolled back transactions get none."""
    return sys_flag & SysFlag.TRANSACTION_MASK in (0, SysFlag.TRANSACTION_COMMIT)


def tag_code_of(topic: str, properties: bytes, stored_at_ms: int, levels: DelayLevels = DELAY_LEVELS) -> int:
    """Return the third field of a message's consume-queue entry.

    It is the tag's code; in the topic of delayed messages it is the time of delivery instead.

    Args:
        levels: how long the levels wait by the settings of this start: what an earlier one wrote keeps its time.

    Source: Java CommitLog.checkMessageAndReturnSize.
    """
    if topic == SCHEDULE_TOPIC:
        level = find_property(properties, b"DELAY")
        if level is not None and level.isdigit() and (number := int(level[:_DIGITS_MAX])) > 0:
            return stored_at_ms + levels.delay_ms(number)
    tag = find_property(properties, b"TAGS")
    return tag_code(tag.decode("utf-8", "replace")) if tag else 0


def dispatched_of(record: Record, levels: DelayLevels) -> Dispatched:
    """Return what recovery tells the consumers about a record that it read."""
    return Dispatched(
        topic=record.topic,
        queue_id=record.queue_id,
        queue_offset=record.queue_offset,
        physical_offset=record.physical_offset,
        size=record.size,
        tag_code=tag_code_of(record.topic, record.properties, record.stored_at_ms, levels),
        stored_at_ms=record.stored_at_ms,
        sys_flag=record.sys_flag,
        properties=record.properties,
    )
