"""One of the queues that a PushConsumer owns now: its reader, and the batch that is outside."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from orbitmq.client.consume.batch import Batch
from orbitmq.client.consume.puller import QueueReader
from orbitmq.model.message import StoredMessage

RETRY_DELAY_MAX_MS = 30_000


def retry_delay_ms(first_ms: int, attempt: int) -> int:
    """Return how long to wait before the delivery after `attempt`: twice as long each time, half a minute at most."""
    return min(first_ms << min(attempt - 1, 16), max(first_ms, RETRY_DELAY_MAX_MS))


class Share:
    """A queue between its reader and whoever takes batches.

    Args:
        reader: fills the window; its `on_messages` leads to `offer`.
        retry_delay_ms: before messages that were not done come again.
        on_ready: is called once whenever a batch can be taken.
    """

    def __init__(self, reader: QueueReader, retry_delay_ms: int, on_ready: Callable[[Share], None]) -> None:
        self.reader = reader
        self.queue = reader.queue
        self.stored_offset: int | None = None
        """The offset that the group's store has, as far as we know."""
        self.is_dropped = False
        self._retry_delay_ms = retry_delay_ms
        self._on_ready = on_ready
        self._attempt = 1
        self._is_offered = False
        self._rest: asyncio.TimerHandle | None = None

    @property
    def offset_to_store(self) -> int | None:
        """The offset that the group's store lacks, None when it is up to date."""
        if not self.reader.is_started:
            return None
        offset = self.reader.window.consumed_offset
        return None if offset == self.stored_offset else offset

    def offer(self) -> None:
        """Say that a batch can be taken, unless that was said already."""
        if self.reader.window.is_ready and not (self._is_offered or self.is_dropped or self._rest):
            self._is_offered = True
            self._on_ready(self)

    def take(self, count_max: int) -> Batch | None:
        """Return the next batch; None when there is nothing to take any more."""
        self._is_offered = False
        if self.is_dropped or self._rest is not None:
            return None
        messages = self.reader.window.take(count_max)
        if not messages:
            return None
        return Batch(self.queue, messages, self._attempt, partial(self._settle, messages))

    def drop(self) -> None:
        """The queue belongs to somebody else now: batches outside are not ours to commit any more."""
        self.is_dropped = True
        self._end_rest()

    def _settle(self, messages: Sequence[StoredMessage], is_done: bool) -> bool:
        if self.is_dropped:
            return False
        if not is_done:
            return self._try_again(messages)
        is_ours = self.reader.window.commit(messages)
        if is_ours:
            self._attempt = 1
            self.reader.made_room()
            self.offer()
        return is_ours

    def _try_again(self, messages: Sequence[StoredMessage]) -> bool:
        if not self.reader.window.give_back(messages):
            return False
        delay_ms = retry_delay_ms(self._retry_delay_ms, self._attempt)
        self._attempt += 1
        self._rest = asyncio.get_running_loop().call_later(delay_ms / 1000, self._rested)
        return True

    def _rested(self) -> None:
        self._rest = None
        self.offer()

    def _end_rest(self) -> None:
        if self._rest is not None:
            self._rest.cancel()
            self._rest = None
