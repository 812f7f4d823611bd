"""The buffers of `send_soon`: messages that wait for their queue, the tasks that send them, and a limit on all of them.

Source: Java ProduceAccumulator.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import NamedTuple, cast

from orbitmq.client.send.batch import EncodedBatch, Load
from orbitmq.client.send.queue_selector import QueueSelector, Target
from orbitmq.client.send.request import EncodedMessage
from orbitmq.client.send.result import SendResult
from orbitmq.client.send.sender import Sender
from orbitmq.client.session.owning_loop import BackgroundTasks
from orbitmq.errors import OrbitError, SendFailed
from orbitmq.model.route import MessageQueue
from orbitmq.wire.messages.batch import ITEM_SIZE_MIN


class Accumulator:
    """Gathers messages into batches.

    Args:
        sender: sends the batches.
        selector: chooses the queues.
        in_flight: is told what comes and goes.
        tasks: where the sending tasks run.
        batch_size_max: bytes of one request.
    """

    def __init__(
        self,
        sender: Sender,
        selector: QueueSelector,
        in_flight: InFlight,
        tasks: BackgroundTasks,
        *,
        batch_size_max: int,
    ) -> None:
        self._sender = sender
        self._selector = selector
        self._in_flight = in_flight
        self._tasks = tasks
        self._batch_size_max = batch_size_max
        self._buffers: dict[tuple[MessageQueue, bool], QueueBuffer] = {}

    def buffer_now(self, target: Target) -> QueueBuffer | None:
        """Return the buffer for the next message to `target`, None while the topic's route is not known."""
        queue = target.queue or self._selector.choose_now(target)
        return None if queue is None else self._buffer(queue, target)

    async def buffer(self, target: Target) -> QueueBuffer:
        """Return the buffer for the next message to `target`; ask for the topic's route first."""
        return self._buffer(await self._selector.choose(target), target)

    def _buffer(self, queue: MessageQueue, target: Target) -> QueueBuffer:
        # Two buffers per queue: what was sent to a queue or key must stay there when the queue's broker fails, and
        # everything else may go to another broker then. They must not travel in one batch.
        is_pinned = target.queue is not None or target.key is not None
        buffer = self._buffers.get((queue, is_pinned))
        if buffer is None:
            aim = Target(target.topic, queue) if is_pinned else target
            buffer = self._buffers[queue, is_pinned] = QueueBuffer(
                self._sender, self._in_flight, self._tasks, queue, aim, self._batch_size_max
            )
        return buffer


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
        finally:  # also when the session closes under us: no caller waits for ever
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
                    waiting.future.exception()  # seen: flush() tells it, callers need not look at the future
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


CAUSES_MAX = 10
"""Errors that are kept for the next flush: enough to see a pattern, whatever the number of failed messages."""


class InFlight:
    """Counts messages of all queues together.

    Args:
        count_max: messages from which on callers wait.
        size_max: bytes from which on callers wait.
    """

    def __init__(self, *, count_max: int, size_max: int) -> None:
        self.has_room = True
        self._count_max = count_max
        self._size_max = size_max
        self._count = 0
        self._size = 0
        self._room = asyncio.Event()
        self._idle = asyncio.Event()
        self._failed_count = 0
        self._causes: list[OrbitError] = []

    def add(self, size: int, count: int = 1) -> None:
        """Count one message in, or several that travel together."""
        self._count += count
        self._size += size
        if self._count >= self._count_max or self._size >= self._size_max:
            self.has_room = False

    def remove(self, count: int, size: int) -> None:
        """Count messages out: they were answered, or given up."""
        self._count -= count
        self._size -= size
        # Callers go on when half is free, not with the first free slot: so they fill batches, not single requests.
        if not self.has_room and self._count <= self._count_max // 2 and self._size <= self._size_max // 2:
            self.has_room = True
            self._room.set()
        if not self._count:
            self._idle.set()

    def record_failure(self, error: OrbitError, count: int) -> None:
        """Keep the error of `count` messages for the next flush."""
        self._failed_count += count
        if len(self._causes) < CAUSES_MAX:
            self._causes.append(error)

    async def wait_for_room(self) -> None:
        """Wait until there is room again."""
        while not self.has_room:
            self._room.clear()
            await self._room.wait()

    async def flush(self) -> None:
        """Wait until nothing is in flight.

        Raises:
            SendFailed: messages failed since the last flush.
        """
        while self._count:
            self._idle.clear()
            await self._idle.wait()
        count, causes = self._failed_count, self._causes
        self._failed_count, self._causes = 0, []
        if count:
            raise SendFailed(f"{count} messages given to send_soon were not sent. The first error: {causes[0]}", causes)
