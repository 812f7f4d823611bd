"""The buffers of all queues that `send_soon` has sent to, and the choice among them.

Source: Java ProduceAccumulator.
"""

from __future__ import annotations

from orbitmq.client.send.accumulator.in_flight import InFlight
from orbitmq.client.send.accumulator.queue_buffer import QueueBuffer
from orbitmq.client.send.queue_selector import QueueSelector, Target
from orbitmq.client.send.sender import Sender
from orbitmq.client.session.background_tasks import BackgroundTasks
from orbitmq.model.route import MessageQueue


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
