"""The queues that a consumer reads now: begins and ends reading them, and stores their offsets."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine
from functools import partial
from typing import Any

from orbitmq.client.consume.allocation import assignment_change
from orbitmq.client.consume.assigned_queue import AssignedQueue, Consumption, FindOffset
from orbitmq.client.consume.offset_stores import OffsetStore
from orbitmq.client.consume.pull_request import PullSettings
from orbitmq.client.consume.puller import Puller
from orbitmq.client.consume.queue_locks import LOCK_INTERVAL_MS, LOCK_RETRY_MS, HeldQueueLocks
from orbitmq.client.consume.start_offsets import StartOffsets
from orbitmq.client.consume.window import WINDOWS_SIZE_MAX
from orbitmq.client.session.session import ClientSession
from orbitmq.errors import ConnectionFailed, OrbitError, RemoteRefused, RequestTimeout
from orbitmq.model.group import Subscription
from orbitmq.model.route import MessageQueue

log = logging.getLogger(__name__)


HAND_OVER_MS = 20_000
"""How long a queue's lock is kept for a handler that still works on it (Java: UNLOCK_DELAY_TIME_MILLS)."""
SEND_BACK_MS = 3_000
"""How long a queue that leaves waits for failed messages that are on their way to the broker."""


class Assignment:
    """A consumer's queues, each with its puller and the offset that is stored for it.

    Args:
        session: carries the requests.
        group: the consumer group.
        store: keeps the offsets.
        start_offsets: tell where a queue begins.
        consumption: how the queues' messages are consumed.
        settings: how queues are pulled.
        commits_with_pulls: let pulls carry offsets, too; not where they are kept elsewhere than at the brokers.
        windows_size_max: bytes that may wait in all queues together; each has the same share.
        locks: read only queues whose locks this client holds; None where messages are not consumed in order.
        on_lost: is called when queues are to be asked for again: a lock was lost, or a queue is given away at last.
        on_final: is called with a refusal that no repetition can change.
    """

    def __init__(
        self,
        session: ClientSession,
        group: str,
        store: OffsetStore,
        start_offsets: StartOffsets,
        consumption: Consumption,
        *,
        settings: PullSettings,
        commits_with_pulls: bool,
        windows_size_max: int = WINDOWS_SIZE_MAX,
        locks: HeldQueueLocks | None = None,
        on_lost: Callable[[], None] = lambda: None,
        on_final: Callable[[RemoteRefused], None] = lambda _refusal: None,
    ) -> None:
        self._session = session
        self._group = group
        self._store = store
        self._start_offsets = start_offsets
        self._consumption = consumption
        self._settings = settings
        self._commits_with_pulls = commits_with_pulls
        self._windows_size_max = windows_size_max
        self._locks = locks
        self._on_lost = on_lost
        self._on_final = on_final
        self._assigned: dict[MessageQueue, AssignedQueue] = {}
        self._leaving: dict[MessageQueue, asyncio.Task[None]] = {}

    @property
    def queues(self) -> Collection[MessageQueue]:
        """The queues that are read now."""
        return self._assigned.keys() - self._leaving.keys()

    @property
    def topics(self) -> set[str]:
        """The topics of these queues."""
        return {queue.topic for queue in self._assigned}

    def __getitem__(self, queue: MessageQueue) -> AssignedQueue:
        return self._assigned[queue]

    def subscribe(self, subscription: Subscription) -> None:
        """Read the topic's queues by another subscription from the next pull on."""
        for queue, assigned in self._assigned.items():
            if queue.topic == subscription.topic:
                assigned.puller.subscribe(subscription)

    async def assign(self, topic: str, subscription: Subscription | None, queues: list[MessageQueue]) -> bool:
        """Read these queues of `topic` and no others; none at all without a subscription.

        Returns:
            False when some of them cannot be read yet: another consumer still holds their locks.
        """
        wanted = queues if subscription is not None else []
        removed, added = assignment_change([queue for queue in self.queues if queue.topic == topic], wanted)
        if self._locks is None:
            await asyncio.gather(*(self._end(queue, 0) for queue in removed))
        else:
            for queue in removed:
                self._leave(queue, self._end(queue, HAND_OVER_MS))
        granted = await self._lock(added)
        if subscription is not None:
            for queue in granted:
                self._assigned[queue] = self._begin(queue, subscription)
        if removed or granted:
            log.info("group %s: %s: topic %s: +%s -%s", self._group, self._session.id, topic, granted, removed)
        return len(granted) == len(added)

    async def keep_locks(self) -> None:
        """Renew the locks for ever; give up the queues whose locks another client has."""
        assert self._locks is not None
        while True:
            await asyncio.sleep((LOCK_RETRY_MS if self._locks.has_unanswered else LOCK_INTERVAL_MS) / 1000)
            lost = await self._locks.renew()
            for queue in lost.intersection(self.queues):
                log.warning("group %s: another consumer has the lock of %s now", self._group, queue)
                self._leave(queue, self._lose(queue))
            for assigned in tuple(self._assigned.values()):
                assigned.offer()  # the lock may have been unknown until now

    async def store_offsets(self) -> None:
        """Store what the offset store lacks; errors are logged, the next round tries again."""
        await asyncio.gather(*map(self._store_offset, tuple(self._assigned.values())))

    async def close(self) -> None:
        """Read no more, and leave the offsets where the next readers find them."""
        for queue in self._leaving:
            self._assigned[queue].drop()  # its handler has had the time that closing gives
        await asyncio.gather(*self._leaving.values(), return_exceptions=True)
        await asyncio.gather(*(self._end(queue, 0) for queue in tuple(self._assigned)))

    def _begin(self, queue: MessageQueue, subscription: Subscription) -> AssignedQueue:
        assigned = AssignedQueue(
            partial(self._make_puller, queue, subscription), self._start_offsets.find, self._consumption, self._is_held
        )
        assigned.puller.start()
        return assigned

    def _make_puller(
        self,
        queue: MessageQueue,
        subscription: Subscription,
        find_offset: FindOffset,
        on_messages: Callable[[], None],
        on_reset: Callable[[int], None],
    ) -> Puller:
        return Puller(
            self._session,
            self._group,
            queue,
            subscription,
            find_offset=find_offset,
            on_messages=on_messages,
            settings=self._settings,
            may_commit=partial(self._may_commit, queue),
            on_reset=on_reset,
            statistics=self._consumption.statistics[queue.topic],
            share_size=self._share_size,
            on_final=self._on_final,
        )

    def _share_size(self) -> int:
        return self._windows_size_max // max(1, len(self._assigned))

    def _is_held(self, queue: MessageQueue) -> bool:
        return self._locks is None or self._locks.holds(queue)

    def _may_commit(self, queue: MessageQueue) -> bool:
        return self._commits_with_pulls and self._is_held(queue)

    async def _lock(self, queues: list[MessageQueue]) -> list[MessageQueue]:
        """Return those that may be read: all of them, or those whose locks are granted and that are not leaving."""
        if self._locks is None:
            return queues
        return sorted(await self._locks.lock([queue for queue in queues if queue not in self._leaving]))

    def _leave(self, queue: MessageQueue, work: Coroutine[Any, Any, None]) -> None:
        """End a queue in the background: an ordered handler may finish what it has."""

        def ended(_task: asyncio.Task[None]) -> None:
            del self._leaving[queue]
            self._on_lost()

        task = self._leaving[queue] = self._session.tasks.spawn(work, f"end of {queue}")
        task.add_done_callback(ended)

    async def _end(self, queue: MessageQueue, wait_ms: int) -> None:
        """End a queue; what a handler works on may be settled for `wait_ms`, and the lock is kept as long."""
        assigned = self._assigned[queue]
        await assigned.puller.stop()
        assigned.revoke()
        await assigned.settled(wait_ms)
        await assigned.sent_back(SEND_BACK_MS)
        assigned.drop()
        await self._store_offset(assigned)
        if self._locks is not None:
            await self._locks.unlock([queue])
        self._assigned.pop(queue, None)  # last: when closing interrupts us, it finds the queue and stores its offset

    async def _lose(self, queue: MessageQueue) -> None:
        """End a queue that another consumer reads already: its offset is that one's to store."""
        assigned = self._assigned[queue]
        await assigned.puller.stop()
        assigned.revoke()
        await assigned.settled(HAND_OVER_MS)
        await assigned.sent_back(SEND_BACK_MS)
        assigned.drop()
        self._assigned.pop(queue, None)

    async def _store_offset(self, assigned: AssignedQueue) -> None:
        offset = assigned.offset_to_store
        if offset is None or not self._is_held(assigned.queue):
            return
        try:
            await self._store.store(assigned.queue, offset)
        except (ConnectionFailed, RequestTimeout) as error:
            self._session.note_failure(assigned.queue.broker_name, error)
        except (OrbitError, OSError) as error:
            log.warning("group %s: offset %d of %s is not stored yet: %s", self._group, offset, assigned.queue, error)
        else:
            assigned.mark_stored(offset)
