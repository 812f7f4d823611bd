"""Group membership of a running broker: clients that join and leave, and the notices that make the others rebalance."""

from __future__ import annotations

from collections.abc import Iterable

from orbitmq.broker.groups.members import GroupMembers, HeartbeatOutcome, HeartbeatSource
from orbitmq.clock import Clock
from orbitmq.model.group import Heartbeat
from orbitmq.net.dispatch.peer import Peer
from orbitmq.wire.headers import NotifyConsumerIdsChanged


class Membership:
    """The members of all groups; those that stay are told of those that come and go.

    Args:
        silence_ms: a client that sends no heartbeat for so long has left.
        clock: the monotonic one: no client is lost because the wall clock was set.
        is_notifying: False: clients are not told, and find out at their next rebalance.
    """

    def __init__(self, members: GroupMembers[Peer], *, silence_ms: int, clock: Clock, is_notifying: bool) -> None:
        self.members = members
        self._silence_ms = silence_ms
        self._clock = clock
        self._is_notifying = is_notifying

    def heartbeat(self, heartbeat: Heartbeat, source: HeartbeatSource[Peer]) -> HeartbeatOutcome:
        """Insert or renew a client in all its groups."""
        outcome = self.members.heartbeat(heartbeat, source, self._clock())
        self._notify(outcome.changed_groups)
        return outcome

    def unregister(
        self, client_id: str, producer_group: str | None, consumer_group: str | None, connection: Peer
    ) -> None:
        """A client leaves, by its own connection."""
        self._notify(self.members.unregister(client_id, producer_group, consumer_group, connection))

    def drop_connection(self, connection: Peer) -> None:
        """A connection closed: its clients are gone."""
        self._notify(self.members.drop_connection(connection))

    def expire(self) -> None:
        """Drop clients that were silent for too long."""
        self._notify(self.members.expire(self._clock(), self._silence_ms))

    def _notify(self, groups: Iterable[str]) -> None:
        """Tell every consumer of the groups that the members changed."""
        if not self._is_notifying:
            return
        for group in groups:
            for connection in self.members.connections(group):
                connection.send_oneway(NotifyConsumerIdsChanged(consumer_group=group))
