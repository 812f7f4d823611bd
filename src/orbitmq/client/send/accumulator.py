"""Fire and forget: messages wait in lanes, one per queue, and leave in batches.

A lane has one request under way at a time, so its messages keep their order; meanwhile the next ones gather. How much
may gather is bounded, and who sends more has to wait.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import NamedTuple

from orbitmq.client.send.request import BATCH_ITEM_OVERHEAD, Outgoing, SendResult
from orbitmq.client.send.sender import Delivery, Target
from orbitmq.errors import OrbitError, SendFailed
from orbitmq.model.route import MessageQueue

BATCH_COUNT_MAX = 1_000
CAUSES_MAX = 10


class _Waiting(NamedTuple):
    outgoing: Outgoing
    future: asyncio.Future[SendResult]
    is_batchable: bool


class Lane:
    """The messages that wait for one queue.

    Args:
        lanes: the bound that all lanes share.
        queue: where the messages go first.
        target: what the caller asked for; without a queue or key a failed batch may go elsewhere.
    """

    def __init__(self, lanes: Lanes, queue: MessageQueue, target: Target) -> None:
        self._lanes = lanes
        self._queue = queue
        self._target = target
        self._waiting: deque[_Waiting] = deque()
        self._is_running = False
        self._loop = asyncio.get_running_loop()

    def put(self, outgoing: Outgoing, is_batchable: bool) -> asyncio.Future[SendResult]:
        """Queue a message; return the future of its result."""
        future: asyncio.Future[SendResult] = self._loop.create_future()
        self._waiting.append(_Waiting(outgoing, future, is_batchable))
        self._lanes.entered(outgoing.size)
        if not self._is_running:
            self._is_running = True
            self._lanes.delivery.session.spawn(self._run(), "lane")
        return future

    async def _run(self) -> None:
        run: list[_Waiting] = []
        try:
            while self._waiting:
                run = self._take()
                await self._send(run)
        finally:  # also when the session closes under us: nobody waits for ever
            self._is_running = False
            self._abandon([waiting for waiting in (*run, *self._waiting) if not waiting.future.done()])
            self._waiting.clear()

    def _take(self) -> list[_Waiting]:
        """Take what goes into the next request: one message, or a run of those that may travel together."""
        waiting = self._waiting
        first = waiting.popleft()
        run, size = [first], first.outgoing.size + BATCH_ITEM_OVERHEAD
        if not first.is_batchable:
            return run
        while waiting and waiting[0].is_batchable and len(run) < BATCH_COUNT_MAX:
            size += waiting[0].outgoing.size + BATCH_ITEM_OVERHEAD
            if size > self._lanes.batch_size_max:
                break
            run.append(waiting.popleft())
        return run

    async def _send(self, run: list[_Waiting]) -> None:
        batch = [waiting.outgoing for waiting in run]
        try:
            found = await self._lanes.delivery.deliver(batch, self._target, first=self._queue)
        except OrbitError as error:
            for waiting in run:
                if not waiting.future.done():
                    waiting.future.set_exception(error)
                    waiting.future.exception()  # flush() tells it: a future that nobody looks at is no mistake
            self._lanes.failed(error, len(run))
        else:
            for waiting, result in zip(run, found, strict=True):
                if not waiting.future.done():
                    waiting.future.set_result(result)
        self._lanes.left(len(batch), sum([outgoing.size for outgoing in batch]))

    def _abandon(self, run: list[_Waiting]) -> None:
        for waiting in run:
            waiting.future.cancel()
        self._lanes.left(len(run), sum(waiting.outgoing.size for waiting in run))


class Lanes:
    """All lanes of a producer, and the bound on what they hold.

    Args:
        delivery: sends the batches.
        count_max: messages under way from which on callers wait.
        size_max: bytes under way from which on callers wait.
        batch_size_max: bytes of one request.
    """

    def __init__(self, delivery: Delivery, *, count_max: int, size_max: int, batch_size_max: int) -> None:
        self.delivery = delivery
        self.batch_size_max = batch_size_max
        self.has_room = True
        self._count_max = count_max
        self._size_max = size_max
        self._count = 0
        self._size = 0
        self._lanes: dict[tuple[MessageQueue, bool], Lane] = {}
        self._room = asyncio.Event()
        self._idle = asyncio.Event()
        self._failed_count = 0
        self._causes: list[OrbitError] = []

    def find(self, target: Target) -> Lane | None:
        """Return the lane for the next message to `target`, None while the topic's route is not known."""
        queue = target.queue or self.delivery.choose_now(target)
        return None if queue is None else self._lane(queue, target)

    async def open(self, target: Target) -> Lane:
        """Return the lane for the next message to `target`; ask for the topic's route first."""
        return self._lane(await self.delivery.choose(target), target)

    async def room(self) -> None:
        """Wait until there is room again."""
        while not self.has_room:
            self._room.clear()
            await self._room.wait()

    async def flush(self) -> None:
        """Wait until nothing is under way.

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

    def _lane(self, queue: MessageQueue, target: Target) -> Lane:
        is_pinned = target.queue is not None or target.key is not None
        lane = self._lanes.get((queue, is_pinned))
        if lane is None:
            aim = Target(target.topic, queue) if is_pinned else target
            lane = self._lanes[queue, is_pinned] = Lane(self, queue, aim)
        return lane

    def entered(self, size: int) -> None:
        """Count one message in."""
        self._count += 1
        self._size += size
        if self._count >= self._count_max or self._size >= self._size_max:
            self.has_room = False

    def left(self, count: int, size: int) -> None:
        """Count messages out."""
        self._count -= count
        self._size -= size
        # Half empty before callers go on: they fill batches then, not single places.
        if not self.has_room and self._count <= self._count_max // 2 and self._size <= self._size_max // 2:
            self.has_room = True
            self._room.set()
        if not self._count:
            self._idle.set()

    def failed(self, error: OrbitError, count: int) -> None:
        """Keep an error for the next flush."""
        self._failed_count += count
        if len(self._causes) < CAUSES_MAX:
            self._causes.append(error)
