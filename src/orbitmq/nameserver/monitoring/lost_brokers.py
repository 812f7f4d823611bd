"""Brokers that left without a good-bye and are not back: their connection broke, or they fell silent.

A broker that un-registers was stopped on purpose, and is none of them. Pure: times come with the
changes. Bounded: any client may register brokers and let them vanish.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from orbitmq.nameserver.routing.events import Cause, ChangeKind, RouteChange

BROKERS_MAX = 1_000
_NO_GOOD_BYE = (Cause.CONNECTION_CLOSED, Cause.LEASE_EXPIRED)

_Member = tuple[str, int | None]
"""A broker's name and id: it may come back at another address."""


class LostBroker(NamedTuple):
    """A broker that is gone: `cluster/name:id`, the same with its address and why, and since when (ms since 1970)."""

    name: str
    text: str
    at_ms: int


class LostBrokers:
    """The last thousand lost brokers."""

    def __init__(self) -> None:
        self._brokers: dict[_Member, LostBroker] = {}

    def note(self, change: RouteChange) -> None:
        """Take note of a change of the routes: a broker is lost, comes back, or is taken out on purpose."""
        if change.kind is ChangeKind.TOPICS_CHANGED:
            return
        member = (change.broker_name, change.broker_id)
        self._brokers.pop(member, None)
        cause, at_ms, _ = change.trigger
        if change.kind is ChangeKind.BROKER_LEFT and cause in _NO_GOOD_BYE:
            name = f"{change.cluster}/{change.broker_name}:{change.broker_id}"
            self._brokers[member] = LostBroker(name, f"{name} at {change.address} ({cause})", at_ms)
            if len(self._brokers) > BROKERS_MAX:
                del self._brokers[next(iter(self._brokers))]

    def since(self, since_ms: int) -> Sequence[LostBroker]:
        """Return the lost brokers at a time (ms since 1970) or later, in that order."""
        return [broker for broker in self._brokers.values() if broker.at_ms >= since_ms]
