"""The messages that wait for one queue, and the task that sends them.

There is one request under way at a time, so that messages keep their order; meanwhile the next ones gather. Batches
grow by themselves when the broker is slow, and a lonely message never waits for others.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import NamedTuple, cast

from orbitmq.client.send.accumulator.in_flight import InFlight
from orbitmq.client.send.batch import EncodedBatch, Load
from orbitmq.client.send.queue_selector import Target
from orbitmq.client.send.request import EncodedMessage
from orbitmq.client.send.result import SendResult
from orbitmq.client.send.sender import Sender
from orbitmq.client.session.background_tasks import BackgroundTasks
from orbitmq.errors import OrbitError
from orbitmq.model.route import MessageQueue
from orbitmq.wire.messages.batch import ITEM_SIZE_MIN

BATCH_COUNT_MAX = 1_000


class _Waiting(NamedTuple):
    message: EncodedMessage | EncodedBatch
    future: asyncio.Future[SendResult]
    is_batchable: bool

    @property
    def message_count(self) -> int:
        return self.message.count if isinstance(self.message, EncodedBatch) else 1


class QueueBuffer:
    """A FIFO in front of one queue.

    Args:
        sender: sends the batches.
        in_flight: is told what comes and goes.
        tasks: where the sending task runs.
        queue: where the messages go first.
        target: what the caller asked for; without a queue or key a failed batch may go to another queue.
        batch_size_max: bytes of one request.
    """

    def __init__(
        self,
        sender: Sender,
        in_flight: InFlight,
        tasks: BackgroundTasks,
        queue: MessageQueue,
        target: Target,
        batch_size_max: int,
    ) -> None:
        self._sender = sender
        self._in_flight = in_flight
        self._tasks = tasks
        self._queue = queue
        self._target = target
        self._batch_size_max = batch_size_max
        self._waiting: deque[_Waiting] = deque()
        self._is_running = False
        self._loop = asyncio.get_running_loop()

    def append(self, message: EncodedMessage, is_batchable: bool) -> asyncio.Future[SendResult]:
        """Queue a message; return the future of its result."""
        future: asyncio.Future[SendResult] = self._loop.create_future()
        self._waiting.append(_Waiting(message, future, is_batchable))
        self._in_flight.add(message.size)
        self._start()
        return future

    def append_batch(self, batch: EncodedBatch) -> asyncio.Future[SendResult]:
        """Queue messages that travel in a request of their own; return the future of their common result."""
        future: asyncio.Future[SendResult] = self._loop.create_future()
        self._waiting.append(_Waiting(batch, future, False))
        self._in_flight.add(batch.size, batch.count)
        self._start()
        return future

    def _start(self) -> None:
        if not self._is_running:
            self._is_running = True
            self._tasks.spawn(self._run(), "send_soon")

    async def _run(self) -> None:
        batch: list[_Waiting] = []
        try:
            while self._waiting:
                batch = self._next_batch()
                await self._send(batch)
        finally:  # also when the session closes under us: nobody waits for ever
            self._is_running = False
            self._abandon([waiting for waiting in (*batch, *self._waiting) if not waiting.future.done()])
            self._waiting.clear()

    def _next_batch(self) -> list[_Waiting]:
        """Remove what goes into the next request: one message, or a run of those that may travel together."""
        waiting = self._waiting
        first = waiting.popleft()
        batch, size = [first], first.message.size + ITEM_SIZE_MIN
        if not first.is_batchable:
            return batch
        while waiting and waiting[0].is_batchable and len(batch) < BATCH_COUNT_MAX:
            size += waiting[0].message.size + ITEM_SIZE_MIN
            if size > self._batch_size_max:
                break
            batch.append(waiting.popleft())
        return batch

    async def _send(self, batch: list[_Waiting]) -> None:
        first = batch[0].message
        load: Load = first if isinstance(first, EncodedBatch) else cast(Load, [each.message for each in batch])
        try:
            results = await self._sender.send(load, self._target, first=self._queue)
        except OrbitError as error:
            for waiting in batch:
                if not waiting.future.done():
                    waiting.future.set_exception(error)
                    waiting.future.exception()  # seen: flush() tells it, nobody has to look at the future
            self._in_flight.record_failure(error, len(load))
        else:
            for waiting, result in zip(batch, results, strict=True):
                if not waiting.future.done():
                    waiting.future.set_result(result)
        self._in_flight.remove(len(load), sum([waiting.message.size for waiting in batch]))

    def _abandon(self, batch: list[_Waiting]) -> None:
        for waiting in batch:
            waiting.future.cancel()
            self._in_flight.remove(waiting.message_count, waiting.message.size)
