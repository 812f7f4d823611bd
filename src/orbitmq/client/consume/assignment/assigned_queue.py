"""One of the queues that a PushConsumer reads: its puller, the batch that was handed out, and the offset that is stored."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from orbitmq.client.consume.batch import Batch
from orbitmq.client.consume.pull.puller import Puller
from orbitmq.model.message import StoredMessage
from orbitmq.model.route import MessageQueue

RETRY_DELAY_MAX_MS = 30_000

FindOffset = Callable[[MessageQueue], Awaitable[int]]
"""Returns the offset at which a queue begins."""
MakePuller = Callable[[FindOffset, Callable[[], None]], Puller]
"""Returns a puller that calls the first argument for its first offset, and the second one when messages have come."""


def retry_delay_ms(first_ms: int, attempt: int) -> int:
    """Return how long to wait before the delivery after `attempt`: twice as long each time, half a minute at most."""
    # 16 doublings are beyond every maximum; more of them would only make large numbers.
    return min(first_ms << min(attempt - 1, 16), max(first_ms, RETRY_DELAY_MAX_MS))


class AssignedQueue:
    """A queue between its puller and those who consume its batches, one batch at a time.

    Args:
        make_puller: makes the puller that fills the window.
        find_offset: returns where the queue begins.
        retry_delay_ms: before messages that were not done come again.
        on_ready: is called once whenever a batch can be handed out.
    """

    def __init__(
        self,
        make_puller: MakePuller,
        find_offset: FindOffset,
        retry_delay_ms: int,
        on_ready: Callable[[AssignedQueue], None],
    ) -> None:
        self.puller = make_puller(self._first_offset, self.offer)
        self.queue = self.puller.queue
        self.is_dropped = False
        self._find_offset = find_offset
        self._stored_offset: int | None = None
        self._retry_delay_ms = retry_delay_ms
        self._on_ready = on_ready
        self._attempt = 1
        self._is_offered = False
        self._retry_timer: asyncio.TimerHandle | None = None

    @property
    def offset_to_store(self) -> int | None:
        """The offset that the group's store lacks, None when it is up to date."""
        if not self.puller.is_started:
            return None
        offset = self.puller.window.consumed_offset
        return None if offset == self._stored_offset else offset

    def mark_stored(self, queue_offset: int) -> None:
        """Note what the group's store has."""
        self._stored_offset = queue_offset

    def offer(self) -> None:
        """Say that a batch can be handed out, unless that was said already."""
        if self.puller.window.is_ready and not (self._is_offered or self.is_dropped or self._retry_timer):
            self._is_offered = True
            self._on_ready(self)

    def next_batch(self, count_max: int) -> Batch | None:
        """Hand out the next batch; None when there is none any more."""
        self._is_offered = False
        if self.is_dropped or self._retry_timer is not None:
            return None
        messages = self.puller.window.next_batch(count_max)
        if not messages:
            return None
        return Batch(self.queue, messages, self._attempt, partial(self._settle, messages))

    def drop(self) -> None:
        """Leave the queue to another consumer: what was handed out can no longer be committed here."""
        self.is_dropped = True
        if self._retry_timer is not None:
            self._retry_timer.cancel()
            self._retry_timer = None

    async def _first_offset(self, queue: MessageQueue) -> int:
        offset = await self._find_offset(queue)
        self.mark_stored(offset)
        return offset

    def _settle(self, messages: Sequence[StoredMessage], is_done: bool) -> bool:
        if self.is_dropped:
            return False
        if not is_done:
            return self._retry(messages)
        is_ours = self.puller.window.commit(messages)
        if is_ours:
            self._attempt = 1
            self.puller.resume()
            self.offer()
        return is_ours

    def _retry(self, messages: Sequence[StoredMessage]) -> bool:
        if not self.puller.window.give_back(messages):
            return False
        delay_ms = retry_delay_ms(self._retry_delay_ms, self._attempt)
        self._attempt += 1
        self._retry_timer = asyncio.get_running_loop().call_later(delay_ms / 1000, self._end_delay)
        return True

    def _end_delay(self) -> None:
        self._retry_timer = None
        self.offer()
