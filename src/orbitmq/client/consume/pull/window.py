"""The window of one queue at a consumer: what was pulled and is not yet consumed, and where the next pull starts.

Messages come in as pulls find them and leave in batches, in order, one batch at a time: the next one waits until
the batch that was handed out is committed or given back. So order is kept whatever the user does, and the offset to
commit is that of the first message that is not done. Pure.

Source: Java ProcessQueue; limits are DefaultMQPushConsumer's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from orbitmq.model.message import StoredMessage

COUNT_MAX = 1_000
SIZE_MAX = 100 * 1024 * 1024
"""A queue with so many messages or bytes waiting is not pulled (pullThresholdForQueue, pullThresholdSizeForQueue)."""


class Window:
    """Messages of one queue between pull and commit.

    Args:
        pull_offset: where the first pull starts, as a queue offset.
        count_max: messages that may wait before pulling pauses.
        size_max: bytes that may wait before pulling pauses.
    """

    def __init__(self, pull_offset: int, *, count_max: int = COUNT_MAX, size_max: int = SIZE_MAX) -> None:
        self.pull_offset = pull_offset
        self.size = 0
        self._count_max = count_max
        self._size_max = size_max
        self._waiting: deque[StoredMessage] = deque()
        self._handed_out: Sequence[StoredMessage] = ()

    @property
    def count(self) -> int:
        """Messages that wait or were handed out."""
        return len(self._waiting) + len(self._handed_out)

    @property
    def has_room(self) -> bool:
        """True while pulling may go on."""
        return self.count < self._count_max and self.size < self._size_max

    @property
    def is_ready(self) -> bool:
        """True when `next_batch` would hand out a batch."""
        return bool(self._waiting) and not self._handed_out

    @property
    def consumed_offset(self) -> int:
        """The queue offset to commit: everything below it is done.

        When nothing waits, that is where the next pull starts: behind the last message may be others that the filter
        left out, and they are done, too.
        """
        if self._handed_out:
            return self._handed_out[0].queue_offset
        return self._waiting[0].queue_offset if self._waiting else self.pull_offset

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
        """Hand out the next messages, or none while a batch is handed out already."""
        if self._handed_out:
            return ()
        count = min(count_max, len(self._waiting))
        self._handed_out = tuple(self._waiting.popleft() for _ in range(count))
        return self._handed_out

    def commit(self, batch: Sequence[StoredMessage], count: int | None = None) -> bool:
        """Mark the first `count` messages of a batch as done (all by default); the others go back to the front.

        Returns:
            False for a batch that is not handed out any more: it was done already, or a seek came in between.
        """
        # By identity: after a seek back, a batch of equal messages may be handed out, and it is not the one meant.
        if batch is not self._handed_out or not batch:
            return False
        done = batch if count is None else batch[:count]
        self.size -= sum(map(_size, done))
        self._waiting.extendleft(reversed(batch[len(done) :]))
        self._handed_out = ()
        return True

    def give_back(self, batch: Sequence[StoredMessage]) -> bool:
        """Take back a batch of which nothing is done: the next batch starts with it again."""
        return self.commit(batch, 0)

    def seek(self, queue_offset: int) -> None:
        """Forget everything and go on at `queue_offset`."""
        self.pull_offset = queue_offset
        self.size = 0
        self._waiting.clear()
        self._handed_out = ()


def _size(message: StoredMessage) -> int:
    """Return the memory that a message needs: a compressed body may be far larger here than at the broker."""
    return max(message.store_size, len(message.body))
