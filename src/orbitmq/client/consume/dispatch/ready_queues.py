"""The assigned queues from which a batch can be handed out, in the order in which they became ready.

Each queue hands out one batch at a time, so that whoever takes from here works on different queues.
"""

from __future__ import annotations

import asyncio

from orbitmq.client.consume.assignment.assigned_queue import AssignedQueue
from orbitmq.client.consume.batch import Batch


class ReadyQueues:
    """A FIFO of queues, and the batches that come out of it.

    Args:
        batch_count_max: messages per batch.
    """

    def __init__(self, batch_count_max: int) -> None:
        self._batch_count_max = batch_count_max
        self._queues: asyncio.Queue[AssignedQueue | None] = asyncio.Queue()
        self._is_closed = False

    def put(self, queue: AssignedQueue) -> None:
        """Append a queue that has a batch."""
        self._queues.put_nowait(queue)

    async def next_batch(self) -> Batch | None:
        """Return the next batch as soon as there is one; None once this is closed."""
        while True:
            queue = await self._queues.get()
            if queue is None or self._is_closed:
                self._queues.put_nowait(None)  # for the others who wait
                return None
            batch = queue.next_batch(self._batch_count_max)
            if batch is not None:  # None: the queue was given away after it became ready
                return batch

    def close(self) -> None:
        """Hand out nothing more, and end all waiting."""
        self._is_closed = True
        self._queues.put_nowait(None)
