"""Group membership of a running broker: clients that join and leave, and the notices that make the others rebalance."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from orbitmq.broker.groups.members import GroupMembers, HeartbeatOutcome, HeartbeatSource
from orbitmq.broker.groups.queue_locks import QueueLocks
from orbitmq.clock import Clock
from orbitmq.model.group import Heartbeat, MessageModel
from orbitmq.net.dispatch.peer import Peer
from orbitmq.wire.headers import NotifyConsumerIdsChanged

MERGED_S = 0.1
"""Of many clients that come at the same time, all would be told of each."""


class Membership:
    """The members of all groups; those that stay are told of those that come and go.

    Args:
        silence_ms: a client that sends no heartbeat for so long has left.
        clock: the monotonic one: no client is lost because the wall clock was set.
        is_notifying: False: clients are not told, and find out at their next rebalance.
        locks: the locks of ordered consumers; those of a client whose connection closes are free after a grace.
        call_later: calls a function after so many seconds; the running loop's.
    """

    def __init__(
        self,
        members: GroupMembers[Peer],
        *,
        silence_ms: int,
        clock: Clock,
        is_notifying: bool,
        locks: QueueLocks,
        call_later: Callable[[float, Callable[[], None]], object] | None = None,
    ) -> None:
        self.members = members
        self._silence_ms = silence_ms
        self._clock = clock
        self._is_notifying = is_notifying
        self._locks = locks
        self._call_later = call_later or _call_later
        self._has_changed: dict[str, bool] = {}
        """Groups whose members were told a moment ago, and whether they have changed since."""

    def heartbeat(self, heartbeat: Heartbeat, source: HeartbeatSource[Peer]) -> HeartbeatOutcome:
        """Insert or renew a client in all its groups."""
        self._locks.reconnect(heartbeat.client_id)
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
        for client_id in self.members.consumers_on(connection):
            self._locks.disconnect(client_id, self._clock())
        self._notify(self.members.drop_connection(connection))

    def expire(self) -> None:
        """Drop clients that were silent for too long."""
        self._notify(self.members.expire(self._clock(), self._silence_ms))

    def _notify(self, groups: Iterable[str]) -> None:
        """Tell every consumer of the groups that the members changed; changes of `MERGED_S` behind the first one together.

        Members of a broadcasting group share nothing, so they are not told.
        """
        if not self._is_notifying:
            return
        for name in groups:
            group = self.members.find(name)
            if group is None or group.message_model is MessageModel.BROADCASTING:
                continue
            if name in self._has_changed:
                self._has_changed[name] = True
            else:
                self._tell(name)

    def _tell(self, name: str) -> None:
        self._has_changed[name] = False
        self._call_later(MERGED_S, lambda: self._tell_again(name))
        for connection in self.members.connections(name):
            connection.send_oneway(NotifyConsumerIdsChanged(consumer_group=name))

    def _tell_again(self, name: str) -> None:
        if self._has_changed.pop(name):
            self._tell(name)


def _call_later(delay_s: float, call: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_later(delay_s, call)
