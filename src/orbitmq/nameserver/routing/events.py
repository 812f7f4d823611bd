"""Changes of the route table, as values: what changed, when, why and by which connection.

Caches, journal, log and metrics learn from them what has happened; they never look for differences themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from orbitmq.model.route import QueueData


class Cause(StrEnum):
    """What made a route change."""

    REGISTRATION = "registration"
    UNREGISTRATION = "unregistration"
    CONNECTION_CLOSED = "connection closed"
    LEASE_EXPIRED = "lease expired"
    WIPE_WRITE_PERM = "write permission wiped"
    ADD_WRITE_PERM = "write permission added"
    TOPIC_REGISTRATION = "topic registration"
    TOPIC_DELETION = "topic deletion"


class ChangeKind(StrEnum):
    """What of a route changed."""

    BROKER_JOINED = "broker joined"
    BROKER_LEFT = "broker left"
    BROKER_UPDATED = "broker updated"
    TOPICS_CHANGED = "topics changed"


class Trigger(NamedTuple):
    """What set off a change: its cause, when, and the requester."""

    cause: Cause
    at_ms: int
    remote: str = ""


class QueueChange(NamedTuple):
    """One topic's queues on one broker name; `before` is None for a new one, `after` for one that is gone."""

    topic: str
    before: QueueData | None
    after: QueueData | None


@dataclass(frozen=True, slots=True)
class QueueChanges:
    """Queue changes in columns: the history keeps tens of thousands, each of which would be one more object to collect."""

    topics: tuple[str, ...] = ()
    before: tuple[QueueData | None, ...] = ()
    after: tuple[QueueData | None, ...] = ()

    @classmethod
    def of(cls, changes: Sequence[QueueChange]) -> QueueChanges:
        """Put changes into columns."""
        return cls(*zip(*changes, strict=True)) if changes else cls()

    def __len__(self) -> int:
        return len(self.topics)

    def __iter__(self) -> Iterator[QueueChange]:
        return map(QueueChange, self.topics, self.before, self.after)


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteChange:
    """One change of the route table.

    `topics` are those whose routes are different now; `queues` says how (TOPICS_CHANGED). For the other kinds `address` is
    the broker's own, and `previous_address` the one that its id had before.
    """

    kind: ChangeKind
    trigger: Trigger
    cluster: str
    broker_name: str
    broker_id: int | None = None
    address: str | None = None
    previous_address: str | None = None
    queues: QueueChanges = QueueChanges()
    topics: tuple[str, ...] = ()
    detail: str = ""


class MinIdNotice(NamedTuple):
    """A notice for the members of a group at `targets`: its smallest living broker id is another one now."""

    broker_name: str
    min_broker_id: int
    min_broker_address: str
    offline_address: str | None
    ha_address: str | None
    targets: tuple[str, ...]
    needs_acting_master: bool
