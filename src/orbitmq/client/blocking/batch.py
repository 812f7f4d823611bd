"""A batch for code without an event loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

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

    def commit(self) -> bool:
        """Mark all messages as done."""
        return self._loop_thread.apply(self._batch.commit)

    def retry(self) -> bool:
        """Ask for the messages once more."""
        return self._loop_thread.apply(self._batch.retry)

    def defer(self) -> None:
        """Keep the batch open past the end of the loop's body."""
        self._loop_thread.apply(self._batch.defer)

    def leave(self) -> None:
        """End the loop's body."""
        self._loop_thread.apply(self._batch.leave)

    def __getitem__(self, index: Any) -> Any:
        return self._batch[index]

    def __len__(self) -> int:
        return len(self._batch)

    def __iter__(self) -> Iterator[StoredMessage]:
        return iter(self._batch)

    def __repr__(self) -> str:
        return repr(self._batch)
