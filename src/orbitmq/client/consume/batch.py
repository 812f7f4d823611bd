"""Batches, as a PushConsumer hands them out: some messages of one queue, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import overload

from orbitmq.model.message import StoredMessage
from orbitmq.model.route import MessageQueue


class Batch(Sequence[StoredMessage]):
    """Messages of one queue, in order. The queue's next batch comes when this one is settled.

    Args:
        queue: where the messages come from.
        messages: one at least.
        attempt: 1 the first time, one more with every redelivery.
        settle: is called with whether the messages are done; returns False when that comes too late.
    """

    __slots__ = ("_is_deferred", "_messages", "_settle", "attempt", "is_settled", "queue")

    def __init__(
        self,
        queue: MessageQueue,
        messages: Sequence[StoredMessage],
        attempt: int,
        settle: Callable[[bool], bool],
    ) -> None:
        self.queue = queue
        self.attempt = attempt
        self.is_settled = False
        self._messages = messages
        self._settle = settle
        self._is_deferred = False

    def commit(self) -> bool:
        """Mark all messages as done: they will not come again, and the group's offset moves past them within 5 s.

        Returns:
            False when that comes too late: the queue belongs to another consumer now, which gets the messages again.
        """
        return self._end(True)

    def retry(self) -> bool:
        """Ask for the messages once more, after the consumer's retry delay."""
        return self._end(False)

    def defer(self) -> None:
        """Keep the batch open past the end of the loop's body: commit() or retry() comes later, from another task."""
        self._is_deferred = True

    def leave(self) -> None:
        """End the loop's body: a batch that is neither settled nor deferred is delivered again."""
        if not self.is_settled and not self._is_deferred:
            self.retry()

    def _end(self, is_done: bool) -> bool:
        if self.is_settled:
            return False
        self.is_settled = True
        return self._settle(is_done)

    @overload
    def __getitem__(self, index: int) -> StoredMessage: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[StoredMessage]: ...
    def __getitem__(self, index: int | slice) -> StoredMessage | Sequence[StoredMessage]:
        return self._messages[index]

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[StoredMessage]:
        return iter(self._messages)

    def __repr__(self) -> str:
        first = self._messages[0].queue_offset
        return (
            f"<Batch {self.queue.topic} {self.queue.broker_name} {self.queue.queue_id} @{first}: {len(self)} messages>"
        )
