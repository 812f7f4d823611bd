"""The heartbeats of brokers: which are alive, which are lost, and which this controller has not listened to for long enough. Pure.

Every controller keeps such a table, because brokers send heartbeats to all of them: a new leader knows immediately which
members are alive. Times are milliseconds of a clock that stands still while the process does not listen.

Source: Java DefaultBrokerHeartbeatManager. Other than there, a broker that comes back through another connection is
lost with that one and not with its first, all brokers of a closed connection are lost and not one of them, and a log
that was cut shrinks here, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from orbitmq.controller.values import LiveMembers, ReplicaGroup, Standing

HEARTBEAT_TIMEOUT_MS = 10_000
"""Of a broker that does not say it; also how long a new controller listens before it counts silent brokers as lost."""
HEARTBEAT_TIMEOUT_MIN_MS = 300
HEARTBEAT_TIMEOUT_MAX_MS = 600_000


class BrokerKey(NamedTuple):
    """One member of one group."""

    cluster: str
    name: str
    broker_id: int


class _LastHeartbeat(NamedTuple):
    standing: Standing
    connection_id: int
    ends_at_ms: int


class Liveness:
    """The living members of all groups.

    Args:
        now_ms: when this controller begins to listen.
    """

    def __init__(self, now_ms: int) -> None:
        self._heartbeats: dict[BrokerKey, _LastHeartbeat] = {}
        self._lost: set[BrokerKey] = set()
        self._knows_all_from_ms = now_ms + HEARTBEAT_TIMEOUT_MS

    @property
    def count(self) -> int:
        """How many brokers are alive."""
        return len(self._heartbeats)

    def heartbeat_received(
        self, key: BrokerKey, standing: Standing, connection_id: int, now_ms: int, timeout_ms: int | None = None
    ) -> bool:
        """Note a heartbeat; return whether the broker was not alive before.

        Args:
            timeout_ms: how long the broker may be silent from now on.
        """
        timeout_ms = HEARTBEAT_TIMEOUT_MS if timeout_ms is None else timeout_ms
        timeout_ms = min(max(timeout_ms, HEARTBEAT_TIMEOUT_MIN_MS), HEARTBEAT_TIMEOUT_MAX_MS)
        is_new = key not in self._heartbeats
        self._heartbeats[key] = _LastHeartbeat(standing, connection_id, now_ms + timeout_ms)
        self._lost.discard(key)
        return is_new

    def disconnect(self, connection_id: int) -> list[BrokerKey]:
        """Return the brokers whose latest heartbeat came through a connection that is closed: they are lost."""
        return self._lose(
            key for key, heartbeat in self._heartbeats.items() if heartbeat.connection_id == connection_id
        )

    def expire(self, now_ms: int) -> list[tuple[BrokerKey, int]]:
        """Return the brokers that were silent for too long, with their connections: they are lost."""
        silent = [
            (key, heartbeat.connection_id)
            for key, heartbeat in self._heartbeats.items()
            if heartbeat.ends_at_ms < now_ms
        ]
        self._lose(key for key, _ in silent)
        return silent

    def forget(self, key: BrokerKey) -> None:
        """Drop what is known of a broker that is not a member any more."""
        self._heartbeats.pop(key, None)
        self._lost.discard(key)

    def living(self, group: ReplicaGroup, now_ms: int) -> LiveMembers:
        """Return the members of a group that are alive, and those of which that cannot be said yet."""
        alive, unheard = {}, []
        knows_all = now_ms >= self._knows_all_from_ms
        for broker_id in group.replicas:
            key = BrokerKey(group.cluster, group.name, broker_id)
            heartbeat = self._heartbeats.get(key)
            if heartbeat is not None and heartbeat.ends_at_ms >= now_ms:
                alive[broker_id] = heartbeat.standing
            elif heartbeat is None and not knows_all and key not in self._lost:
                unheard.append(broker_id)
        return LiveMembers(alive, frozenset(unheard))

    def _lose(self, keys: Iterable[BrokerKey]) -> list[BrokerKey]:
        lost = list(keys)
        for key in lost:
            del self._heartbeats[key]
        self._lost.update(lost)
        return lost
