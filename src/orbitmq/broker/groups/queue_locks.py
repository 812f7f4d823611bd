"""Locks on queues, which consumers of ordered messages take so that one client at a time works on a queue.

State: group -> queue -> holder, until when. Pure: time is an argument.

Source: Java RebalanceLockManager, request codes 41 and 42.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import NamedTuple

from orbitmq.model.route import MessageQueue


class _Lock(NamedTuple):
    client_id: str
    expires_at_ms: int


class QueueLocks:
    """The locks of all groups, each held by one client until it expires."""

    def __init__(self, lifetime_ms: int) -> None:
        self._lifetime_ms = lifetime_ms
        # By topic and broker, then by queue id: tens of thousands of locks are few objects for the garbage collector.
        self._locks: dict[str, dict[tuple[str, str], dict[int, _Lock]]] = {}

    def lock(self, group: str, client_id: str, queues: Iterable[MessageQueue], now_ms: int) -> list[MessageQueue]:
        """Take or renew what is free, expired or the client's own; return what it holds now."""
        held = self._locks.setdefault(group, {})
        own = _Lock(client_id, now_ms + self._lifetime_ms)
        granted = []
        for queue in queues:
            of_topic = held.setdefault((queue.topic, queue.broker_name), {})
            lock = of_topic.get(queue.queue_id)
            if lock is None or lock.client_id == client_id or lock.expires_at_ms <= now_ms:
                of_topic[queue.queue_id] = own
                granted.append(queue)
        return granted

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Give back the queues that the client holds; others' locks stay."""
        held = self._locks.get(group, {})
        for queue in queues:
            of_topic = held.get((queue.topic, queue.broker_name), {})
            lock = of_topic.get(queue.queue_id)
            if lock is not None and lock.client_id == client_id:
                del of_topic[queue.queue_id]

    def is_ordered(self, group: str, now_ms: int) -> bool:
        """True while a client of the group holds any lock: its messages are consumed in order."""
        locks = chain.from_iterable(of_topic.values() for of_topic in self._locks.get(group, {}).values())
        return any(lock.expires_at_ms > now_ms for lock in locks)

    def expire(self, now_ms: int) -> None:
        """Forget locks that ran out, so that gone groups take no memory."""
        for group, held in list(self._locks.items()):
            for name, of_topic in list(held.items()):
                for queue_id in [number for number, lock in of_topic.items() if lock.expires_at_ms <= now_ms]:
                    del of_topic[queue_id]
                if not of_topic:
                    del held[name]
            if not held:
                del self._locks[group]
