"""A group's clients, its lag, and the change of its offsets. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from orbitmq.client.session.arguments import LONG_MAX, whole
from orbitmq.model.group import ConsumerInfo, MessageModel, gone_count, unread_count
from orbitmq.model.route import MessageQueue
from orbitmq.wire.bodies.groups import ClientConnection, GroupConfig
from orbitmq.wire.bodies.topics import QueueStats

_NUMBER = whole(0, LONG_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStatus:
    """A consumer group.

    Args:
        settings: by broker name; a broker that has none does not know the group.
        clients: those that are online at any broker, each once.
        message_model: how its clients read; None while none is online.
        subscriptions: topic to expression, as the clients say.
    """

    group: str
    settings: Mapping[str, GroupConfig]
    clients: tuple[ClientConnection, ...] = ()
    message_model: MessageModel | None = None
    subscriptions: Mapping[str, str]


Connections = tuple[tuple[ClientConnection, ...], ConsumerInfo]
"""A group's clients that are online at one broker, and what they read."""


def merged_status(group: str, settings: Mapping[str, GroupConfig], told: Iterable[Connections | None]) -> GroupStatus:
    """Return one status of what each master tells; None: no client of the group is online there."""
    clients: dict[str, ClientConnection] = {}
    info: ConsumerInfo | None = None
    for connections in told:
        if connections is not None:
            info = connections[1]
            clients.update({client.client_id: client for client in connections[0]})
    return GroupStatus(
        group=group,
        settings=settings,
        clients=tuple(clients[client_id] for client_id in sorted(clients)),
        message_model=None if info is None else info.message_model,
        subscriptions={}
        if info is None
        else {subscription.topic: subscription.expression for subscription in info.subscriptions},
    )


class QueueLag(NamedTuple):
    """How far a group is in one queue."""

    committed: int
    end: int
    consumed_at_ms: int
    """When the last message that it has done was stored; 0: unknown."""
    begin: int = 0
    """The queue's first offset; 0 also where the group has read everything."""

    @property
    def lag(self) -> int:
        """Messages that are still to come."""
        return unread_count(self.committed, self.begin, self.end)

    @property
    def gone(self) -> int:
        """Messages that were deleted before the group read them."""
        return gone_count(self.committed, self.begin)


def total_lag(places: Iterable[QueueLag]) -> int | None:
    """Return the messages that are still to come for a group in its queues; None: it has an offset in none of them."""
    lags = [place.lag for place in places]
    return sum(lags) if lags else None


class _Kind(StrEnum):
    EARLIEST = "earliest"
    LATEST = "latest"
    TIME = "time"
    OFFSET = "offset"


@dataclass(frozen=True, slots=True)
class ResetTo:
    """Where a group is to go on; made by one of the four methods."""

    kind: _Kind
    number: int = 0

    @staticmethod
    def earliest() -> ResetTo:
        """Go on at the first message that is still there."""
        return ResetTo(_Kind.EARLIEST)

    @staticmethod
    def latest() -> ResetTo:
        """Go on behind the newest message: skip all that wait."""
        return ResetTo(_Kind.LATEST)

    @staticmethod
    def time(time_ms: int) -> ResetTo:
        """Go on at the first message that was stored then or later, in ms since 1970."""
        return ResetTo(_Kind.TIME, _NUMBER("time_ms", time_ms))

    @staticmethod
    def offset(queue_offset: int) -> ResetTo:
        """Go on at this offset of each queue, or at the nearest one that a queue has."""
        return ResetTo(_Kind.OFFSET, _NUMBER("offset", queue_offset))

    @property
    def needs_search(self) -> bool:
        """True where brokers have to be asked for the offset at a time."""
        return self.kind is _Kind.TIME

    def offset_in(self, bounds: QueueStats, found: int | None) -> int:
        """Return the offset in a queue.

        Args:
            found: the offset at the time, where brokers have been asked.
        """
        if self.kind is _Kind.EARLIEST:
            return bounds.min_offset
        if self.kind is _Kind.LATEST:
            return bounds.max_offset
        wanted = self.number if found is None else found
        return max(bounds.min_offset, min(wanted, bounds.max_offset))


class QueueReset(NamedTuple):
    """The change of a group's offset in one queue."""

    queue: MessageQueue
    before: int
    after: int

    @property
    def again_count(self) -> int:
        """Messages that the group gets once more."""
        return max(0, self.before - self.after)

    @property
    def skipped_count(self) -> int:
        """Messages that it does not get any more."""
        return max(0, self.after - self.before)
