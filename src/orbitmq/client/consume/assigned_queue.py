"""One of the queues that a PushConsumer reads: its puller, the batches that were handed out, and the offset that is stored."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from dataclasses import dataclass, field

from orbitmq.client.consume.batch import Batch, Settler
from orbitmq.client.consume.puller import Puller
from orbitmq.client.consume.redelivery import RedeliveryPolicy
from orbitmq.client.consume.retries import Retries, TakesBack
from orbitmq.client.consume.statistics import TopicStatistics
from orbitmq.client.session.owning_loop import BackgroundTasks
from orbitmq.clock import now_ms
from orbitmq.model.message import StoredMessage
from orbitmq.model.route import MessageQueue
from orbitmq.wire.bodies.consumer_info import QueueInfo

FindOffset = Callable[[MessageQueue], Awaitable[int]]
"""Returns the offset at which a queue begins."""
MakePuller = Callable[[FindOffset, Callable[[], None], Callable[[int], None]], Puller]
"""Returns a puller that calls the first argument for its first offset, the second one when messages have come, and the
third one with an offset that the group was set to."""


TopicSums = MutableMapping[str, TopicStatistics]


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumption:
    """How a consumer's queues are consumed.

    Args:
        policy: what becomes of messages that were not done.
        send_backs: takes those that are not to come again from here.
        tasks: where background requests run.
        on_ready: is called with a queue once whenever a batch can be handed out.
        statistics: sums of each topic's work are kept here.
        is_shared: several batches of a queue may be out at a time; otherwise the next one waits for the one before.
        settler_of: returns what a batch settles with: the queue, or what stands before it.
        expires_ms: a batch that is not settled by then counts as failed; None where handlers are watched themselves.
        deferred_ms: so does a batch that its handler has left to be settled later, from then on.
        check_loop: raises where batches cannot be settled.
    """

    policy: RedeliveryPolicy
    send_backs: TakesBack
    tasks: BackgroundTasks
    on_ready: Callable[[AssignedQueue], None]
    statistics: TopicSums = field(default_factory=lambda: defaultdict(TopicStatistics))
    is_shared: bool = False
    settler_of: Callable[[Settler], Settler] = lambda settler: settler
    expires_ms: int | None = None
    deferred_ms: int | None = None
    check_loop: Callable[[], None] = lambda: None


class AssignedQueue:
    """A queue between its puller and the consumers of its batches (a Settler).

    Args:
        make_puller: makes the puller that fills the window.
        find_offset: returns where the queue begins.
        consumption: how its messages are consumed.
        is_held: says whether this consumer may hand out messages now: ordered consumption needs the queue's lock.
    """

    def __init__(
        self,
        make_puller: MakePuller,
        find_offset: FindOffset,
        consumption: Consumption,
        is_held: Callable[[MessageQueue], bool] = lambda _queue: True,
    ) -> None:
        self.puller = make_puller(self._first_offset, self.offer, self.reset_by_broker)
        self.queue = self.puller.queue
        self.is_dropped = False
        self.is_revoked = False
        self._find_offset = find_offset
        self._consumption = consumption
        self._is_held = is_held
        self._stored_offset: int | None = None
        self._is_offered = False
        self._out: dict[Batch, asyncio.TimerHandle | None] = {}
        self._out_since: dict[Batch, float] = {}
        self._statistics = consumption.statistics[self.queue.topic]
        self._consumed_at_ms = 0
        self._idle = asyncio.Event()
        self._retries = Retries(
            self.queue,
            self.puller.window,
            consumption.policy,
            consumption.send_backs,
            consumption.tasks,
            on_change=self._go_on,
        )

    @property
    def is_over(self) -> bool:
        """True when the queue goes to another consumer (Settler)."""
        return self.is_revoked or self.is_dropped

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

    def go_on_at(self, queue_offset: int) -> None:
        """Read on at another offset, which was set for the group; what was handed out cannot be settled any more."""
        self.puller.seek(queue_offset)
        self._stored_offset = None
        self._abandon_waiting()

    def reset_by_broker(self, queue_offset: int) -> None:
        """Note that the puller reads on at an offset that the broker has set, or at the first one of a queue that was created again.

        It is stored once more: a batch of before may have been committed in between.
        """
        self._stored_offset = None
        self._abandon_waiting()

    def describe(self) -> QueueInfo:
        """Return how the queue is doing."""
        window = self.puller.window
        first, last = window.bounds
        working = window.open_offsets if self._consumption.policy.is_in_place else []
        return QueueInfo(
            commit_offset=window.consumed_offset if self.puller.is_started else -1,
            cached_min_offset=first,
            cached_max_offset=last,
            cached_count=window.count,
            cached_size_mib=window.size >> 20,
            working_min_offset=working[0] if working else 0,
            working_max_offset=working[-1] if working else 0,
            working_count=len(working),
            is_locked=self._is_held(self.queue),
            is_dropped=self.is_over,
            pulled_at_ms=self.puller.pulled_at_ms,
            consumed_at_ms=self._consumed_at_ms,
        )

    def offer(self) -> None:
        """Say that a batch can be handed out, unless that was said already."""
        if not self._is_offered and self._has_batch():
            self._is_offered = True
            self._consumption.on_ready(self)

    def next_batch(self, count_max: int) -> Batch | None:
        """Hand out the next batch; None when there is none any more."""
        self._is_offered = False
        if not self._has_batch():
            return None
        is_shared = self._consumption.is_shared
        messages, settler = self.puller.window.next_batch(count_max), self._consumption.settler_of(self)
        check_loop = self._consumption.check_loop
        batch = Batch(self.queue, messages, settler, is_started=not is_shared, check_loop=check_loop)
        if not is_shared:
            settler.begun(batch)
        self._out[batch] = _expiry(batch, self._consumption.expires_ms)
        self._out_since[batch] = asyncio.get_running_loop().time()
        self.offer()
        return batch

    def revoke(self) -> None:
        """Hand out nothing more; what a handler works on may still be settled."""
        self.is_revoked = True
        self._abandon_waiting()

    async def settled(self, timeout_ms: int) -> None:
        """Wait until what was handed out is settled, `timeout_ms` at most."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while self._out:
                    self._idle.clear()
                    await self._idle.wait()
        except TimeoutError:
            pass

    async def sent_back(self, timeout_ms: int) -> None:
        """Wait until what failed is with the broker, `timeout_ms` at most."""
        await self._retries.sent(timeout_ms)

    def drop(self) -> None:
        """Leave the queue to another consumer: what was handed out can no longer be committed here."""
        self.revoke()
        self.is_dropped = True
        self._retries.close()
        for timer in self._out.values():
            if timer is not None:
                timer.cancel()
        self._out.clear()
        self._out_since.clear()
        self._idle.set()

    def begun(self, batch: Batch) -> None:
        """Nothing: a batch that is out is known (Settler)."""

    def done(self, messages: Sequence[StoredMessage]) -> bool:
        """Settle messages (Settler)."""
        if self.is_dropped:
            return False
        is_ours = self.puller.window.settle(messages)
        self._statistics.done += len(messages)
        self.puller.resume()
        return is_ours

    def failed(self, messages: Sequence[StoredMessage], delay_level: int) -> bool:
        """Deliver messages again (Settler)."""
        self._statistics.failed += len(messages)
        return not self.is_dropped and self._retries.retry(messages, delay_level)

    def suspended(self, messages: Sequence[StoredMessage], delay_ms: int | None) -> bool:
        """Deliver messages again in place (Settler)."""
        self._statistics.failed += len(messages)
        return not self.is_dropped and self._retries.suspend(messages, delay_ms)

    def rejected(self, messages: Sequence[StoredMessage]) -> bool:
        """Give messages up (Settler)."""
        self._statistics.failed += len(messages)
        return not self.is_dropped and self._retries.reject(messages)

    def deferred(self, batch: Batch) -> None:
        """Start the time limit of a batch whose handler has returned (Settler)."""
        if batch in self._out and self._out[batch] is None:
            self._out[batch] = _expiry(batch, self._consumption.deferred_ms)

    def batch_ended(self, batch: Batch) -> None:
        """Go on behind a batch (Settler)."""
        timer = self._out.pop(batch, None)
        if timer is not None:
            timer.cancel()
        self._statistics.batches += 1
        now_s = asyncio.get_running_loop().time()
        self._statistics.consume_s += now_s - self._out_since.pop(batch, now_s)
        self._consumed_at_ms = now_ms()
        if not self._out:
            self._idle.set()
        self.offer()

    def _abandon_waiting(self) -> None:
        """End the batches that were handed out and wait for their turn: no handler begins with them any more."""
        for batch in [batch for batch in self._out if not batch.is_started]:
            batch.abandon()

    def _has_batch(self) -> bool:
        return (
            self.puller.window.is_ready
            and not (self.is_over or self._retries.is_suspended)
            and (self._consumption.is_shared or not self._out)
            and self._is_held(self.queue)
        )

    def _go_on(self) -> None:
        if not self.is_dropped:
            self.puller.resume()
            self.offer()

    async def _first_offset(self, queue: MessageQueue) -> int:
        offset = await self._find_offset(queue)
        self.mark_stored(offset)
        return offset


def _expiry(batch: Batch, expires_ms: int | None) -> asyncio.TimerHandle | None:
    return None if expires_ms is None else asyncio.get_running_loop().call_later(expires_ms / 1000, batch.expire)
