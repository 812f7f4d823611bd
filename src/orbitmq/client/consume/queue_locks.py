"""The locks that a consumer of ordered messages holds at the brokers: one client of a group works on a queue at a time.

Each lock is counted from before it was asked for, and ends here sooner than at its broker, so that two clients never
believe that they hold it.

Source: Java RebalanceImpl.lock, lockAll and unlock; ProcessQueue's lifetimes.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Collection

from orbitmq.client.session.session import ClientSession
from orbitmq.clock import Clock, monotonic_ms
from orbitmq.errors import OrbitError
from orbitmq.model.route import MessageQueue
from orbitmq.net.pool import expect
from orbitmq.wire.bodies.heartbeat import QueueLock, decode_locked_queues, encode_queue_lock
from orbitmq.wire.headers import LockQueues, UnlockQueues

log = logging.getLogger(__name__)

LOCK_INTERVAL_MS = 20_000
LOCK_RETRY_MS = 1_000
"""Before the next round, when a broker did not answer the last one."""
LOCK_LIFETIME_MS = 30_000
"""How long a granted lock counts here (Java: rocketmq.client.rebalance.lockMaxLiveTime)."""
BROKER_LIFETIME_MS = 60_000
"""How long it counts at its broker. A lock that was not renewed for so long may have been another consumer's meanwhile."""
LOCK_TIMEOUT_MS = 1_000


class HeldQueueLocks:
    """One client's locks.

    Args:
        session: carries the requests, and has the client's id.
        group: the consumer group.
        clock: a monotonic one.
    """

    def __init__(self, session: ClientSession, group: str, clock: Clock = monotonic_ms) -> None:
        self._session = session
        self._group = group
        self._clock = clock
        self._granted_at: dict[MessageQueue, int] = {}
        self.has_unanswered = False
        """True when a broker did not answer the last renewal."""

    def holds(self, queue: MessageQueue) -> bool:
        """True while no other consumer can have the queue's lock."""
        granted_at = self._granted_at.get(queue)
        return granted_at is not None and self._clock() - granted_at < LOCK_LIFETIME_MS

    async def lock(self, queues: Collection[MessageQueue]) -> set[MessageQueue]:
        """Take the locks of queues; return those that were granted."""
        if not queues:
            return set()
        asked_at = self._clock()
        granted: set[MessageQueue] = set()
        for found in await asyncio.gather(*(self._ask(*run) for run in self._by_broker(queues).items())):
            granted |= found or set()
        self._granted_at.update(dict.fromkeys(granted, asked_at))
        return granted

    async def renew(self) -> set[MessageQueue]:
        """Renew every lock; return the queues that are lost to another client, or may have been."""
        asked_at = self._clock()
        runs = self._by_broker(self._granted_at)
        answers = await asyncio.gather(*(self._ask(*run) for run in runs.items()))
        self.has_unanswered = None in answers
        lost = set()
        for queues, granted in zip(runs.values(), answers, strict=True):
            if granted is None:
                continue
            for queue in queues:
                granted_at = self._granted_at.get(queue)
                if granted_at is None:
                    continue  # unlocked meanwhile
                if queue in granted and asked_at - granted_at < BROKER_LIFETIME_MS:
                    self._granted_at[queue] = asked_at
                else:
                    del self._granted_at[queue]
                    lost.add(queue)
        return lost

    async def unlock(self, queues: Collection[MessageQueue]) -> None:
        """Give locks back; a broker that is not reached lets them run out."""
        held = [queue for queue in queues if self._granted_at.pop(queue, None) is not None]
        await asyncio.gather(*(self._give_back(*run) for run in self._by_broker(held).items()))

    async def _ask(self, broker_name: str, queues: list[MessageQueue]) -> set[MessageQueue] | None:
        """Return what a broker has granted; None when it did not answer."""
        try:
            answer = await self._session.call(
                broker_name, LockQueues(), self._body(queues), timeout_ms=LOCK_TIMEOUT_MS, only_this=True
            )
            granted = set(decode_locked_queues(expect(answer, broker_name).body))
        except OrbitError as error:
            log.debug("group %s: locks at %s: %s", self._group, broker_name, error)
            return None
        return granted.intersection(queues)

    async def _give_back(self, broker_name: str, queues: list[MessageQueue]) -> None:
        try:
            answer = await self._session.call(
                broker_name, UnlockQueues(), self._body(queues), timeout_ms=LOCK_TIMEOUT_MS, only_this=True
            )
            expect(answer, broker_name)
        except OrbitError as error:
            log.debug("group %s: unlocking at %s: %s", self._group, broker_name, error)

    def _body(self, queues: list[MessageQueue]) -> bytes:
        return encode_queue_lock(QueueLock(group=self._group, client_id=self._session.id, queues=tuple(queues)))

    def _by_broker(self, queues: Collection[MessageQueue]) -> dict[str, list[MessageQueue]]:
        found: defaultdict[str, list[MessageQueue]] = defaultdict(list)
        for queue in queues:
            found[self._session.routes.broker_of(queue)].append(queue)
        return found
