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
    """The locks of all groups, each held by one client until it expires.

    Args:
        lifetime_ms: of a lock that is not renewed.
        grace_ms: of the locks of a client whose connection has closed without an unlock; they stay when it is back by then.
    """

    def __init__(self, lifetime_ms: int, grace_ms: int) -> None:
        self._lifetime_ms = lifetime_ms
        self._grace_ms = grace_ms
        self._graces: dict[str, int] = {}
        """Until when a client that has lost its connection keeps its locks."""
        # By topic and broker, then by queue id: tens of thousands of locks are few objects for the garbage collector.
        self._locks: dict[str, dict[tuple[str, str], dict[int, _Lock]]] = {}

    def lock(self, group: str, client_id: str, queues: Iterable[MessageQueue], now_ms: int) -> list[MessageQueue]:
        """Take or renew what is free, expired or the client's own; return what it holds now."""
        self.reconnect(client_id)
        held = self._locks.setdefault(group, {})
        own = _Lock(client_id, now_ms + self._lifetime_ms)
        granted = []
        for queue in queues:
            of_topic = held.setdefault((queue.topic, queue.broker_name), {})
            lock = of_topic.get(queue.queue_id)
            if lock is None or lock.client_id == client_id or self._is_free(lock, now_ms):
                of_topic[queue.queue_id] = own
                granted.append(queue)
        return granted

    def disconnect(self, client_id: str, now_ms: int) -> None:
        """Let the grace of a client's locks begin: its connection has closed."""
        if self._locks:
            self._graces[client_id] = now_ms + self._grace_ms

    def reconnect(self, client_id: str) -> None:
        """End the grace of a client that is back; it keeps what no other has taken."""
        self._graces.pop(client_id, None)

    def _is_free(self, lock: _Lock, now_ms: int) -> bool:
        return lock.expires_at_ms <= now_ms or self._graces.get(lock.client_id, now_ms + 1) <= now_ms

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
        for client_id in [name for name, until_ms in self._graces.items() if until_ms + self._lifetime_ms <= now_ms]:
            del self._graces[client_id]
        for group, held in list(self._locks.items()):
            for name, of_topic in list(held.items()):
                for queue_id in [number for number, lock in of_topic.items() if lock.expires_at_ms <= now_ms]:
                    del of_topic[queue_id]
                if not of_topic:
                    del held[name]
            if not held:
                del self._locks[group]
