"""The tasks that call a consumer's handler: with batches, one queue each, or with messages, in order of their keys.

Source: Java ConsumeMessageOrderlyService: one batch per queue is handed out at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Hashable
from dataclasses import replace
from typing import Generic, TypeVar

from orbitmq.client.consume.assigned_queue import AssignedQueue
from orbitmq.client.consume.batch import Batch
from orbitmq.client.consume.handler_call import FailureLog, call_handler
from orbitmq.client.consume.redelivery import RedeliveryPolicy
from orbitmq.client.consume.retries import TakesBack
from orbitmq.client.consume.send_backs import TO_DEAD_LETTERS
from orbitmq.client.session.owning_loop import BackgroundTasks
from orbitmq.errors import ClientError
from orbitmq.model.message import StoredMessage

Handler = Callable[[Batch], Awaitable[object] | object]


class HandlerPool:
    """Calls a handler with batch after batch: one that returns has done its batch, one that raises gets it again.

    What the handler itself has settled stays settled, and what it has deferred stays open. A message that cannot be decoded
    goes to the dead letters instead.

    Args:
        group: the consumer group, for the log.
        ready: where the batches come from.
        handler: is called with each one.
        concurrency: batches that are handled at the same time.
        timeout_ms: a handler that takes longer is cancelled, and has failed.
        tasks: where the handlers run.
    """

    def __init__(
        self,
        group: str,
        ready: ReadyQueues,
        handler: Handler,
        *,
        concurrency: int,
        timeout_ms: int,
        tasks: BackgroundTasks,
    ) -> None:
        self._group = group
        self._failures = FailureLog(group)
        self._ready = ready
        self._handler = handler
        self._concurrency = concurrency
        self._timeout_ms = timeout_ms
        self._tasks = tasks
        self._workers: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Handle batches from now on."""
        self._workers = [self._tasks.spawn(self._work(), "handler") for _ in range(self._concurrency)]

    async def drain(self, timeout_ms: int) -> None:
        """Wait until running handlers have ended, `timeout_ms` at most; the queues were closed before."""
        await _drain(self._workers, timeout_ms, self._group)

    async def _work(self) -> None:
        while (batch := await self._ready.next_batch()) is not None:
            if batch.decode_error is not None:
                self._failures.undecodable(batch[0], batch.queue)
                batch.reject()
                continue
            try:
                await call_handler(self._handler, batch, self._timeout_ms)
            except Exception as error:
                self._failures.failed(error, "%r, attempt %d", batch, batch.attempt)
                batch.retry()
            else:
                batch.finish()


log = logging.getLogger(__name__)


async def _drain(workers: Collection[asyncio.Task[None]], timeout_ms: int, group: str) -> None:
    """Wait until handlers have ended; warn of those that the end of the time cuts off."""
    if not workers:
        return
    _, running = await asyncio.wait(workers, timeout=timeout_ms / 1000)
    if running:
        log.warning(
            "group %s: %d handlers still run %d ms after the consumer was closed (close_timeout_ms); they are cancelled, and their "
            "messages come again",
            group, len(running), timeout_ms,
        )  # fmt: skip


MessageHandler = Callable[[StoredMessage], Awaitable[object] | object]
KeyOf = Callable[[StoredMessage], Hashable]
"""Returns a message's key; None for a message that has none."""


class _QueuedMessage:
    """A message that waits for its handler, as the handler is to see it."""

    __slots__ = ("batch", "message")

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.message = batch[0]


class MessagePool:
    """Calls a handler with message after message: one that returns has done its message, one that raises has not.

    A message that cannot be decoded goes to the dead letters instead.

    Args:
        group: the consumer group, for the log.
        ready: where the messages come from, one to a batch.
        handler: is called with each one.
        key: which messages are to stay in order, those without a key aside; None for all of a queue.
        policy: what becomes of messages that failed. In place they hold their key's lane, nothing else.
        send_backs: takes messages whose last attempt in place has failed.
        concurrency: messages that are handled at the same time.
        timeout_ms: a handler that takes longer is cancelled, and has failed.
        tasks: where the handlers run.
    """

    def __init__(
        self,
        group: str,
        ready: ReadyQueues,
        handler: MessageHandler,
        *,
        key: KeyOf | None,
        policy: RedeliveryPolicy,
        send_backs: TakesBack,
        concurrency: int,
        timeout_ms: int,
        tasks: BackgroundTasks,
    ) -> None:
        self._group = group
        self._failures = FailureLog(group)
        self._ready = ready
        self._handler = handler
        self._key = key
        self._policy = policy
        self._send_backs = send_backs
        self._concurrency = concurrency
        self._timeout_ms = timeout_ms
        self._tasks = tasks
        self._key_queues: KeyQueues[_QueuedMessage] = KeyQueues()
        self._turns: asyncio.Queue[Hashable] = asyncio.Queue()
        self._is_closed = False
        self._workers: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Handle messages from now on."""
        self._tasks.spawn(self._feed(), "messages")
        self._workers = [self._tasks.spawn(self._work(), "handler") for _ in range(self._concurrency)]

    async def drain(self, timeout_ms: int) -> None:
        """Wait until running handlers have ended, `timeout_ms` at most; the queues were closed before."""
        await _drain(self._workers, timeout_ms, self._group)

    async def _feed(self) -> None:
        """Put messages into key queues as they come; the windows of their queues bound how many there are."""
        while (batch := await self._ready.next_batch()) is not None:
            turn = _QueuedMessage(batch)
            key_queue = self._queue_of(turn)
            if self._key_queues.put(key_queue, turn):
                self._turns.put_nowait(key_queue)
        self._is_closed = True
        for _ in self._workers:
            self._turns.put_nowait(None)

    def _queue_of(self, turn: _QueuedMessage) -> Hashable:
        if self._key is None:
            return turn.batch.queue
        try:
            key = self._key(turn.message)
            hash(key)
        except Exception:
            log.exception(
                "group %s: no key for message %s: it waits for no other", self._group, turn.message.message_id
            )
            key = None
        if key is None:
            return turn.batch.queue if self._policy.is_in_place else turn
        return turn.batch.queue, key

    async def _work(self) -> None:
        while (key_queue := await self._turns.get()) is not None and not self._is_closed:
            turn = self._key_queues.first(key_queue)
            pause_ms = await self._take(turn) if turn.batch.start() else None
            if pause_ms is not None:
                turn.batch.pause()
                asyncio.get_running_loop().call_later(pause_ms / 1000, self._turns.put_nowait, key_queue)
            elif self._key_queues.advance(key_queue):
                self._turns.put_nowait(key_queue)

    async def _take(self, turn: _QueuedMessage) -> int | None:
        """Handle one message; return how long to wait before it is to be handled again, None when it is settled."""
        if turn.message.decode_error is not None:
            self._failures.undecodable(turn.message, turn.batch.queue)
            return await self._fail(turn, is_last=True)
        try:
            await call_handler(self._handler, turn.message, self._timeout_ms)
        except Exception as error:
            message = turn.message
            self._failures.failed(
                error, "message %s of %s at offset %d, attempt %d",
                message.message_id, turn.batch.queue, message.queue_offset, message.attempt,
            )  # fmt: skip
            return await self._fail(turn, is_last=self._policy.is_in_place and self._policy.is_last(turn.message))
        turn.batch.commit()
        return None

    async def _fail(self, turn: _QueuedMessage, *, is_last: bool) -> int | None:
        message = turn.message
        if not self._policy.is_in_place:
            turn.batch.reject() if is_last else turn.batch.retry()
            return None
        if is_last and await self._send_backs.send(message, turn.batch.queue, TO_DEAD_LETTERS):
            turn.batch.commit()
            return None
        turn.message = replace(message, reconsume_times=message.reconsume_times + 1)
        return self._policy.delay_ms(message)


class ReadyQueues:
    """A FIFO of queues, and the batches that come out of it.

    Args:
        batch_count_max: messages per batch.
    """

    def __init__(self, batch_count_max: int) -> None:
        self._batch_count_max = batch_count_max
        self._queues: asyncio.Queue[AssignedQueue | None] = asyncio.Queue()
        self._is_closed = False
        self._failure: ClientError | None = None

    def put(self, queue: AssignedQueue) -> None:
        """Append a queue that has a batch."""
        self._queues.put_nowait(queue)

    async def next_batch(self) -> Batch | None:
        """Return the next batch as soon as there is one; None once this is closed.

        Raises:
            ClientError: what `fail` was given, once.
        """
        while True:
            queue = await self._queues.get()
            failure, self._failure = self._failure, None
            if failure is not None and not self._is_closed:
                if queue is not None:
                    self._queues.put_nowait(queue)
                raise failure
            if queue is None and not self._is_closed:
                continue  # another waiter has the failure
            if queue is None or self._is_closed:
                self._queues.put_nowait(None)  # for the other waiters
                return None
            batch = queue.next_batch(self._batch_count_max)
            if batch is not None:  # None: the queue was given away after it became ready
                return batch

    def fail(self, error: ClientError) -> None:
        """Raise an error where a batch is waited for, or is asked for the next time."""
        if self._failure is None:
            self._queues.put_nowait(None)
        self._failure = error

    def close(self) -> None:
        """Hand out nothing more, and end all waiting."""
        self._is_closed = True
        self._queues.put_nowait(None)


T = TypeVar("T")


class KeyQueues(Generic[T]):
    """FIFOs by key. A queue exists as long as it has items, its first one included, which a handler works on."""

    def __init__(self) -> None:
        self._key_queues: dict[Hashable, deque[T]] = {}

    def put(self, key: Hashable, item: T) -> bool:
        """Append an item to its key's lane; True when it is the first one: its turn has come."""
        key_queue = self._key_queues.get(key)
        if key_queue is not None:
            key_queue.append(item)
            return False
        self._key_queues[key] = deque((item,))
        return True

    def first(self, key: Hashable) -> T:
        """Return the item whose turn it is."""
        return self._key_queues[key][0]

    def advance(self, key: Hashable) -> bool:
        """Remove the first item; True when another one follows it."""
        key_queue = self._key_queues[key]
        key_queue.popleft()
        if key_queue:
            return True
        del self._key_queues[key]
        return False

    def __len__(self) -> int:
        return len(self._key_queues)
