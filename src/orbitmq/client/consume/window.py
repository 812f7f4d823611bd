"""The window of one queue at a consumer: what was pulled and is not yet consumed, and where the next pull starts.

Messages come in as pulls find them and leave in order, in batches. Each message that was handed out is open until it is
settled (done, or stored elsewhere) or given back (it comes again in front). The offset to commit is that of the first
message that waits or is open, whatever happens to those behind it. Pure.

Source: Java ProcessQueue; limits are DefaultMQPushConsumer's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

from orbitmq.model.message import StoredMessage

COUNT_MAX = 1_000
SIZE_MAX = 100 * 1024 * 1024
"""A queue with so many messages or bytes waiting is not pulled (pullThresholdForQueue, pullThresholdSizeForQueue)."""
WINDOWS_SIZE_MAX = 512 * 1024 * 1024
"""Bytes that may wait in all queues of a consumer together."""
SPAN_MAX: Final = 2_000
"""A queue is not pulled while one message lies so far behind the last one (Java: consumeConcurrentlyMaxSpan)."""


class ProcessQueue:
    """Messages of one queue between pull and commit.

    Args:
        pull_offset: where the first pull starts, as a queue offset.
        count_max: messages that may wait before pulling pauses.
        size_max: bytes that may wait before pulling pauses.
        span_max: offsets between the first and the last message before pulling pauses; None for any number.
        share_size: returns how many of the bytes that the queues of a consumer share are this queue's now; None for no such limit.
    """

    def __init__(
        self,
        pull_offset: int,
        *,
        count_max: int = COUNT_MAX,
        size_max: int = SIZE_MAX,
        span_max: int | None = None,
        share_size: Callable[[], int] | None = None,
    ) -> None:
        self.pull_offset = pull_offset
        self.size = 0
        self._count_max = count_max
        self._size_max = size_max
        self._span_max = span_max
        self._share_size = share_size
        self._waiting: deque[StoredMessage] = deque()
        self._open: dict[int, StoredMessage] = {}

    @property
    def count(self) -> int:
        """Messages that wait or are open."""
        return len(self._waiting) + len(self._open)

    @property
    def has_room(self) -> bool:
        """True while pulling may go on."""
        size_max = self._size_max if self._share_size is None else min(self._size_max, self._share_size())
        return self.count < self._count_max and self.size < size_max and not self.is_too_wide

    @property
    def is_too_wide(self) -> bool:
        """True when the first message lies too far behind the last one: all between them may come again after a crash."""
        if self._span_max is None:
            return False
        first, last = self.bounds
        return last - first > self._span_max

    @property
    def is_ready(self) -> bool:
        """True when `next_batch` would hand out a batch."""
        return bool(self._waiting)

    @property
    def consumed_offset(self) -> int:
        """The queue offset to commit: everything below it is settled.

        When nothing waits, that is where the next pull starts: behind the last message may be others that the filter
        left out, and they are done, too.
        """
        first = self._waiting[0].queue_offset if self._waiting else self.pull_offset
        return min(first, min(self._open)) if self._open else first

    @property
    def bounds(self) -> tuple[int, int]:
        """The first and the last offset of the messages that wait or are open; 0 without any."""
        ends = [self._waiting[0].queue_offset, self._waiting[-1].queue_offset] if self._waiting else []
        offsets = [*ends, *self._open]
        return (min(offsets), max(offsets)) if offsets else (0, 0)

    @property
    def open_offsets(self) -> list[int]:
        """The offsets of the messages that were handed out, sorted."""
        return sorted(self._open)

    def add(self, messages: Sequence[StoredMessage], next_offset: int) -> None:
        """Add what one pull found.

        Args:
            messages: in the queue's order; fewer than the offsets passed where a filter left some out.
            next_offset: where the next pull starts.
        """
        self._waiting.extend(messages)
        self.size += sum(map(_size, messages))
        self.pull_offset = next_offset

    def next_batch(self, count_max: int) -> Sequence[StoredMessage]:
        """Hand out the next messages in order; one that was tried before, or cannot be decoded, comes alone.

        So a message that spoils its batch is alone from its second delivery on: only its own attempts count then, and
        its neighbours are not given up with it.
        """
        waiting = self._waiting
        if not waiting:
            return ()
        batch = [waiting.popleft()]
        if not _comes_alone(batch[0]):
            while waiting and len(batch) < count_max and not _comes_alone(waiting[0]):
                batch.append(waiting.popleft())
        self._open.update((message.queue_offset, message) for message in batch)
        return tuple(batch)

    def take(self, count_max: int) -> list[StoredMessage]:
        """Remove the next messages in order: the caller has settled them."""
        taken = [self._waiting.popleft() for _ in range(min(count_max, len(self._waiting)))]
        self.size -= sum(map(_size, taken))
        return taken

    def is_open(self, message: StoredMessage) -> bool:
        """True for a message that was handed out and is neither settled nor given back, nor forgotten by a seek."""
        # By identity: after a seek back an equal message may be handed out, and it is not the one meant.
        return self._open.get(message.queue_offset) is message

    def settle(self, messages: Iterable[StoredMessage]) -> bool:
        """Mark messages as settled: they do not come again, and the offset may pass them.

        Returns:
            False when one of them is not open any more; the others are settled all the same.
        """
        is_ours = True
        for message in messages:
            if self.is_open(message):
                del self._open[message.queue_offset]
                self.size -= _size(message)
            else:
                is_ours = False
        return is_ours

    def give_back(self, messages: Iterable[StoredMessage]) -> bool:
        """Take back messages that are not done: they come again, in order, before those that were never handed out.

        Each counts one more of its `reconsume_times` then (as in Java ConsumeMessageOrderlyService).

        Returns:
            False when one of them is not open any more; the others come again all the same.
        """
        is_ours = True
        for message in sorted(messages, key=lambda message: message.queue_offset, reverse=True):
            if self.is_open(message):
                del self._open[message.queue_offset]
                self._insert(replace(message, reconsume_times=message.reconsume_times + 1))
            else:
                is_ours = False
        return is_ours

    def seek(self, queue_offset: int) -> None:
        """Forget everything and go on at `queue_offset`."""
        self.pull_offset = queue_offset
        self.size = 0
        self._waiting.clear()
        self._open.clear()

    def _insert(self, message: StoredMessage) -> None:
        """Put a message among those that wait, where its offset belongs: near the front."""
        before = 0
        while before < len(self._waiting) and self._waiting[before].queue_offset < message.queue_offset:
            before += 1
        self._waiting.insert(before, message)


def _comes_alone(message: StoredMessage) -> bool:
    return message.reconsume_times > 0 or message.decode_error is not None


def _size(message: StoredMessage) -> int:
    """Return the memory that a message needs: a compressed body may be far larger here than at the broker."""
    return max(message.store_size, len(message.body))
