"""A batch for code without an event loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

from orbitmq.client.consume.batch import Batch
from orbitmq.client.loop_thread import LoopThread
from orbitmq.model.message import StoredMessage


class BlockingBatch(Sequence[StoredMessage]):
    """A batch whose methods may be called from any thread; see `orbitmq.Batch`."""

    def __init__(self, batch: Batch, loop_thread: LoopThread) -> None:
        self.queue = batch.queue
        self.attempt = batch.attempt
        self._batch = batch
        self._loop_thread = loop_thread

    @property
    def is_settled(self) -> bool:
        """True when every message is settled."""
        return self._batch.is_settled

    @property
    def unsettled(self) -> tuple[StoredMessage, ...]:
        """The messages that are not settled yet, in order."""
        return self._loop_thread.apply(lambda: self._batch.unsettled)

    def commit(self, upto: StoredMessage | None = None) -> bool:
        """Mark all messages as done, or those up to one of them."""
        return self._loop_thread.apply(self._batch.commit, upto)

    def ack(self, message: StoredMessage) -> bool:
        """Mark one message as done."""
        return self._loop_thread.apply(self._batch.ack, message)

    def retry(self, message: StoredMessage | None = None, *, delay_level: int = 0) -> bool:
        """Ask for one message, or for all that are not settled, once more."""
        return self._loop_thread.apply(lambda: self._batch.retry(message, delay_level=delay_level))

    def suspend(self, delay_ms: int | None = None) -> bool:
        """Ask for all messages that are not settled once more, in place."""
        return self._loop_thread.apply(self._batch.suspend, delay_ms)

    def reject(self, message: StoredMessage | None = None) -> bool:
        """Give up one message, or all that are not settled: they become dead letters."""
        return self._loop_thread.apply(self._batch.reject, message)

    def defer(self) -> None:
        """Keep the batch open past the end of the loop's body."""
        self._loop_thread.apply(self._batch.defer)

    def leave(self) -> None:
        """End the loop's body."""
        self._loop_thread.apply(self._batch.leave)

    @overload
    def __getitem__(self, index: int) -> StoredMessage: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[StoredMessage]: ...
    def __getitem__(self, index: int | slice) -> StoredMessage | Sequence[StoredMessage]:
        return self._batch[index]

    def __len__(self) -> int:
        return len(self._batch)

    def __iter__(self) -> Iterator[StoredMessage]:
        return iter(self._batch)

    def __repr__(self) -> str:
        return repr(self._batch)
