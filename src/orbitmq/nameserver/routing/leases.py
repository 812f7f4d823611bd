"""Leases: the brokers that live, until when, and the connection that each of them speaks through. Pure.

A lease belongs to the newest connection that renewed it: neither the end of an older one nor anything that still
arrives through an older one takes it away (apache/rocketmq#11043).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from orbitmq.model.topic import DataVersion
from orbitmq.nameserver.routing.values import BrokerKey


@dataclass(slots=True)
class Lease:
    """A living broker. `owner` is the number of the connection that it speaks through; later ones are greater."""

    broker_name: str
    renewed_at_ms: int
    lease_ms: int
    data_version: DataVersion
    ha_address: str
    owner: int = 0

    def is_over(self, now_ms: int) -> bool:
        """True once the broker was silent for longer than it may be."""
        return self.renewed_at_ms + self.lease_ms < now_ms


class Leases:
    """Leases by broker, and brokers by owner."""

    def __init__(self) -> None:
        self._leases: dict[BrokerKey, Lease] = {}
        self._owned: dict[int, dict[BrokerKey, None]] = {}

    def __len__(self) -> int:
        return len(self._leases)

    def __iter__(self) -> Iterator[tuple[BrokerKey, Lease]]:
        return iter(self._leases.items())

    def get(self, key: BrokerKey) -> Lease | None:
        """Return a broker's lease, None when it has none."""
        return self._leases.get(key)

    def owned_by(self, owner: int) -> tuple[BrokerKey, ...]:
        """Return the brokers that speak through a connection."""
        return tuple(self._owned.get(owner, ()))

    def begin(self, key: BrokerKey, lease: Lease) -> None:
        """Give a broker a new lease in place of the one it has.

        A registration of many topics takes several turns of the event loop, and its lease begins with the last one. A
        heartbeat between them renewed the old lease. So the new one keeps the later time and the newer connection.
        """
        previous = self.end(key)
        if previous is not None:
            lease.owner = max(lease.owner, previous.owner)
            lease.renewed_at_ms = max(lease.renewed_at_ms, previous.renewed_at_ms)
        self._leases[key] = lease
        self._owned.setdefault(lease.owner, {})[key] = None

    def renew(self, key: BrokerKey, now_ms: int, owner: int, data_version: DataVersion | None = None) -> bool:
        """Renew a lease, and give it to `owner` when that is the newer connection. False: there is none."""
        lease = self._leases.get(key)
        if lease is None:
            return False
        lease.renewed_at_ms = now_ms
        if data_version is not None:
            lease.data_version = data_version
        if owner > lease.owner:
            self._disown(key, lease)
            lease.owner = owner
            self._owned.setdefault(owner, {})[key] = None
        return True

    def end(self, key: BrokerKey) -> Lease | None:
        """Take a lease away and return it, None when there was none."""
        lease = self._leases.pop(key, None)
        if lease is not None:
            self._disown(key, lease)
        return lease

    def over(self, now_ms: int) -> list[tuple[BrokerKey, Lease]]:
        """Return the leases that ran out."""
        return [(key, lease) for key, lease in self._leases.items() if lease.is_over(now_ms)]

    def _disown(self, key: BrokerKey, lease: Lease) -> None:
        owned = self._owned[lease.owner]
        del owned[key]
        if not owned:
            del self._owned[lease.owner]
