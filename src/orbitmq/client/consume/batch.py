"""Batches, as a PushConsumer hands them out: some messages of one queue, in order."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Protocol, overload

from orbitmq.client.session.arguments import DURATION_MS_MAX, whole
from orbitmq.errors import InvalidArgument
from orbitmq.model.delay_levels import DELAY_LEVELS_MAX
from orbitmq.model.message import StoredMessage
from orbitmq.model.route import MessageQueue

log = logging.getLogger(__name__)

_DELAY_LEVEL = whole(0, DELAY_LEVELS_MAX)
_DELAY_MS = whole(0, DURATION_MS_MAX)


class Settler(Protocol):
    """Is told what a batch's consumer has done with its messages; methods return False when that comes too late."""

    @property
    def is_over(self) -> bool:
        """True when the queue goes to another consumer: nothing of it is begun any more."""
        ...

    def begun(self, batch: Batch) -> None:
        """Note that a consumer begins with a batch; once again where it comes again in place."""
        ...

    def done(self, messages: Sequence[StoredMessage]) -> bool:
        """Do not deliver the messages again."""
        ...

    def failed(self, messages: Sequence[StoredMessage], delay_level: int) -> bool:
        """Deliver the messages again, in the consumer's way; 0 leaves the delay to the one that delivers them."""
        ...

    def suspended(self, messages: Sequence[StoredMessage], delay_ms: int | None) -> bool:
        """Deliver the messages again from here, and nothing of their queue before."""
        ...

    def rejected(self, messages: Sequence[StoredMessage]) -> bool:
        """Put the messages with the group's dead letters."""
        ...

    def deferred(self, batch: Batch) -> None:
        """Note that a batch's handler has returned, and that the batch is settled later."""
        ...

    def batch_ended(self, batch: Batch) -> None:
        """Go on with the queue: every message of the batch is settled."""
        ...


class Batch(Sequence[StoredMessage]):
    """Messages of one queue, in order. The queue's next batch comes when all of them are settled.

    Messages are settled together or one by one: `commit()` and `ack(message)` mark what is done, `retry()` and
    `retry(message)` what is to come again, and the group's offset never passes a message that is not settled.

    Args:
        queue: where the messages come from.
        messages: one at least.
        settler: is told what is settled.
        is_started: False for a batch that waits for its turn after it was handed out; see `start`.
        check_loop: raises where batches cannot be settled: on another loop than the consumer's, or in a thread.
    """

    __slots__ = ("_check_loop", "_is_deferred", "_messages", "_settler", "_unsettled", "is_started", "queue")

    def __init__(
        self,
        queue: MessageQueue,
        messages: Sequence[StoredMessage],
        settler: Settler,
        *,
        is_started: bool = True,
        check_loop: Callable[[], None] = lambda: None,
    ) -> None:
        self.queue = queue
        self.is_started = is_started
        self._messages = messages
        self._settler = settler
        self._unsettled = {message.queue_offset: message for message in messages}
        self._check_loop = check_loop
        self._is_deferred = False

    @property
    def attempt(self) -> int:
        """1 the first time, one more with every redelivery. Messages that come again come one by one."""
        return self._messages[0].reconsume_times + 1

    @property
    def decode_error(self) -> str | None:
        """Why the batch's only message could not be decoded, see `StoredMessage.decode_error`; such a one comes alone."""
        return self._messages[0].decode_error

    @property
    def is_settled(self) -> bool:
        """True when every message is settled."""
        return not self._unsettled

    @property
    def unsettled(self) -> tuple[StoredMessage, ...]:
        """The messages that are not settled yet, in order."""
        return tuple(self._unsettled.values())

    def commit(self, upto: StoredMessage | None = None) -> bool:
        """Mark messages as done: they will not come again, and the group's offset moves past them within 5 s.

        Args:
            upto: the last one that is done, with all before it; without it all that are not settled yet.

        Returns:
            False when that comes too late: all of them are settled, or the queue belongs to another consumer now, which
            gets the messages again.

        Raises:
            InvalidArgument: `upto` is none of this batch's messages.
        """
        return self._settle(self._chosen(upto), self._settler.done)

    def ack(self, message: StoredMessage) -> bool:
        """Mark one message as done, whatever becomes of the others.

        Returns:
            False when that comes too late, as `commit` does.

        Raises:
            InvalidArgument: it is none of this batch's messages.
        """
        return self._settle(self._one(message), self._settler.done)

    def retry(self, message: StoredMessage | None = None, *, delay_level: int = 0) -> bool:
        """Ask for one message, or for all that are not settled, once more.

        A consumer of a group sends them back to the broker, which delivers them to any member after 10 s, then 30 s,
        1 min and so on, and puts them with the dead letters after `max_attempts`. One that consumes in order, or that
        broadcasts, gets them again from here, after its own `retry_delay_ms`, before anything else of their queue.

        Args:
            delay_level: one of the broker's (1 to 18: 1s 5s 10s 30s 1m .. 2h) instead of the broker's choice; it has no meaning in order.

        Returns:
            False when that comes too late, as `commit` does.

        Raises:
            InvalidArgument: the message is none of this batch, or the level is out of range.
        """
        delay_level = _DELAY_LEVEL("delay_level", delay_level)
        chosen = self._chosen() if message is None else self._one(message)
        return self._settle(chosen, lambda messages: self._settler.failed(messages, delay_level))

    def suspend(self, delay_ms: int | None = None) -> bool:
        """Ask for all messages that are not settled once more, in place: the queue waits until they are done.

        Args:
            delay_ms: until they come; the consumer's retry delay when left out.

        Returns:
            False when that comes too late, as `commit` does.

        Raises:
            InvalidArgument: the delay is not a whole number, 0 or more.
        """
        if delay_ms is not None:
            delay_ms = _DELAY_MS("delay_ms", delay_ms)
        return self._settle(self._chosen(), lambda messages: self._settler.suspended(messages, delay_ms))

    def reject(self, message: StoredMessage | None = None) -> bool:
        """Give up one message, or all that are not settled: they go to the group's dead letters immediately.

        Returns:
            False when that comes too late, as `commit` does.

        Raises:
            InvalidArgument: the message is none of this batch.
        """
        chosen = self._chosen() if message is None else self._one(message)
        return self._settle(chosen, self._settler.rejected)

    def defer(self) -> None:
        """Keep the batch open past the end of the loop's body, or of its handler: another task settles it later."""
        self._is_deferred = True

    def leave(self) -> None:
        """End the loop's body: messages that are neither settled nor deferred are delivered again."""
        if not self.is_settled and not self._is_deferred:
            self.retry()

    def finish(self) -> None:
        """End a handler that has returned: what is neither settled nor deferred is done."""
        if self._is_deferred and not self.is_settled:
            self._settler.deferred(self)
        else:
            self.commit()

    def start(self) -> bool:
        """Begin with a batch that waited for its turn; False when it is not ours to begin any more."""
        self.is_started = not self.is_settled
        if self.is_started:
            self._settler.begun(self)
        return self.is_started

    def pause(self) -> None:
        """Let a batch that was begun wait for another turn."""
        self.is_started = False
        if self._settler.is_over:
            self.abandon()

    def abandon(self) -> None:
        """End the batch without a word about its messages: the queue's next reader gets them."""
        self._unsettled.clear()
        self._settler.batch_ended(self)

    def expire(self) -> None:
        """End the time that the consumer allows: what is not settled is delivered again (Java: consumeTimeout)."""
        if not self.is_settled:
            log.warning("%r is not settled in time: %d messages count as failed", self, len(self._unsettled))
            self.retry()

    def _chosen(self, upto: StoredMessage | None = None) -> list[StoredMessage]:
        if upto is None:
            return list(self._unsettled.values())
        self._check("upto", upto)
        return [message for offset, message in self._unsettled.items() if offset <= upto.queue_offset]

    def _one(self, message: StoredMessage) -> list[StoredMessage]:
        self._check("message", message)
        return [message] if message.queue_offset in self._unsettled else []

    def _check(self, name: str, message: StoredMessage) -> None:
        is_ours = isinstance(message, StoredMessage) and self._unsettled.get(message.queue_offset) is message
        if not is_ours and not any(own is message for own in self._messages):
            raise InvalidArgument(name, message, "a message of this batch")

    def _settle(self, messages: list[StoredMessage], settle: Callable[[Sequence[StoredMessage]], bool]) -> bool:
        self._check_loop()
        if not messages:
            return False
        for message in messages:
            del self._unsettled[message.queue_offset]
        is_ours = settle(messages)
        if not self._unsettled:
            self._settler.batch_ended(self)
        return is_ours

    @overload
    def __getitem__(self, index: int) -> StoredMessage: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[StoredMessage]: ...
    def __getitem__(self, index: int | slice) -> StoredMessage | Sequence[StoredMessage]:
        return self._messages[index]

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[StoredMessage]:
        return iter(self._messages)

    def __repr__(self) -> str:
        first = self._messages[0].queue_offset
        return (
            f"<Batch {self.queue.topic} {self.queue.broker_name} {self.queue.queue_id} @{first}: {len(self)} messages>"
        )


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
