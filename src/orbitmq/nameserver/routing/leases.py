"""Leases: the brokers that live, until when, and the connection that each of them speaks through. Pure.

A lease belongs to the connection through which the broker registered last, and goes with it, as in Java
(RouteInfoManager.onChannelDestroy). There is one exception: a broker that connects again has two connections for a
moment, and what still arrives through the older one must not tie the broker to it (apache/rocketmq#11043). So the end
of a connection takes a broker along when it registered through no newer one that is open.

A connection that merely names a broker, with a heartbeat or a question for its data version, renews the lease and does not
own it (Java: RouteInfoManager.updateBrokerInfoUpdateTimestamp).

Times are those of a `pause_aware_clock`, not of the wall.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from orbitmq.model.topic import DataVersion
from orbitmq.nameserver.routing.values import BrokerKey


@dataclass(slots=True)
class Lease:
    """A living broker.

    `owners` are the numbers of the open connections that it registered through, in the order in which it last did;
    later connections have greater numbers.
    """

    renewed_at_ms: int
    lease_ms: int
    data_version: DataVersion
    ha_address: str
    owners: tuple[int, ...] = (0,)

    @property
    def owner(self) -> int:
        """The connection that it registered through last."""
        return self.owners[-1]

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
        """Return the brokers that registered through a connection."""
        return tuple(self._owned.get(owner, ()))

    def begin(self, key: BrokerKey, lease: Lease) -> None:
        """Give a broker a new lease in place of the one it has.

        A registration of many topics takes several turns of the event loop, and its lease begins with the last one. A
        heartbeat between them renewed the old lease. So the new one keeps the later time.
        """
        previous = self.end(key)
        if previous is not None:
            lease.renewed_at_ms = max(lease.renewed_at_ms, previous.renewed_at_ms)
            lease.owners = _with_last(previous.owners, lease.owner)
        self._leases[key] = lease
        for owner in lease.owners:
            self._owned.setdefault(owner, {})[key] = None

    def renew(self, key: BrokerKey, now_ms: int) -> bool:
        """Renew a lease, for any connection. False: there is none."""
        lease = self._leases.get(key)
        if lease is None:
            return False
        lease.renewed_at_ms = now_ms
        return True

    def register(self, key: BrokerKey, now_ms: int, owner: int, data_version: DataVersion) -> bool:
        """Renew the lease of a broker that registers with the topics that it had, and give it to `owner`.

        Returns:
            False when there is none.
        """
        lease = self._leases.get(key)
        if lease is None:
            return False
        lease.renewed_at_ms = now_ms
        lease.data_version = data_version
        if owner != lease.owners[-1]:
            lease.owners = _with_last(lease.owners, owner)
            self._owned.setdefault(owner, {})[key] = None
        return True

    def release(self, owner: int) -> tuple[BrokerKey, ...]:
        """Take a connection that has ended out of all leases that outlive it; return the brokers whose do not."""
        gone = []
        for key in self.owned_by(owner):
            lease = self._leases[key]
            if owner == lease.owner == max(lease.owners):
                gone.append(key)
            else:
                self._disown(owner, key)
                lease.owners = tuple(other for other in lease.owners if other != owner)
        return tuple(gone)

    def end(self, key: BrokerKey) -> Lease | None:
        """Take a lease away and return it, None when there was none."""
        lease = self._leases.pop(key, None)
        if lease is not None:
            for owner in lease.owners:
                self._disown(owner, key)
        return lease

    def over(self, now_ms: int) -> list[tuple[BrokerKey, Lease]]:
        """Return the leases that ran out."""
        return [(key, lease) for key, lease in self._leases.items() if lease.is_over(now_ms)]

    def _disown(self, owner: int, key: BrokerKey) -> None:
        owned = self._owned[owner]
        del owned[key]
        if not owned:
            del self._owned[owner]


def _with_last(owners: tuple[int, ...], owner: int) -> tuple[int, ...]:
    return (*(other for other in owners if other != owner), owner)
