"""One `async for` loop over a consumer's batches."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

from orbitmq.client.consume.batch import Batch


class BatchIterator(AsyncIterator[Batch]):
    """Yields batches; one that the loop's body did not settle is delivered again when the next one is asked for.

    Args:
        next_batch: returns the next batch, None at the end.
    """

    def __init__(self, next_batch: Callable[[], Awaitable[Batch | None]]) -> None:
        self._next_batch = next_batch
        self._current: Batch | None = None

    async def __anext__(self) -> Batch:
        if self._current is not None:
            self._current.leave()
            self._current = None
        batch = await self._next_batch()
        if batch is None:
            raise StopAsyncIteration
        self._current = batch
        return batch
