"""The members of producer and consumer groups, and what they subscribe to, as heartbeats tell it. Pure.

State: members of every group by client id, and each consumer group's subscriptions. In: heartbeats, un-registrations,
closed connections, the clock. Out: the names of the consumer groups whose members must rebalance.
A connection is an opaque value here; a client that came back over a new one is not removed by the old one's end.

Source: Java ConsumerManager, ProducerManager, ConsumerGroupInfo.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVar

from orbitmq.model.group import ConsumeFrom, ConsumerInfo, ConsumeType, Heartbeat, MessageModel, Subscription

C = TypeVar("C", bound=Hashable)

MEMBERS_PER_GROUP_MAX = 10_000
"""Ours: every member is told of every change, so a group may not grow without end."""


@dataclass(slots=True)
class GroupMember(Generic[C]):
    """One client in one group."""

    client_id: str
    connection: C
    language: str
    version: int
    seen_at_ms: int


@dataclass(slots=True)
class ConsumerGroup(Generic[C]):
    """A consumer group that has members."""

    name: str
    consume_type: ConsumeType = ConsumeType.PUSH
    message_model: MessageModel = MessageModel.CLUSTERING
    consume_from: ConsumeFrom = ConsumeFrom.LAST
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    members: dict[str, GroupMember[C]] = field(default_factory=dict)


class HeartbeatSource(NamedTuple, Generic[C]):
    """Where a heartbeat came from."""

    connection: C
    language: str = "OTHER"
    version: int = 0


class HeartbeatOutcome(NamedTuple):
    """What a heartbeat did: groups that must rebalance, and whether the client must send its subscriptions."""

    changed_groups: tuple[str, ...] = ()
    needs_subscriptions: bool = False


class GroupMembers(Generic[C]):
    """Every producer and consumer group with members on this broker."""

    def __init__(self) -> None:
        self._consumers: dict[str, ConsumerGroup[C]] = {}
        self._producers: dict[str, dict[str, GroupMember[C]]] = {}
        self._producers_by_client: dict[str, dict[str, GroupMember[C]]] = {}
        self._connections: set[C] = set()
        self.find = self._consumers.get
        """Return a consumer group that has members, or None; bound once, since every pull asks."""

    @property
    def consumers(self) -> Mapping[str, ConsumerGroup[C]]:
        """A read-only view of the consumer groups."""
        return MappingProxyType(self._consumers)

    @property
    def producers(self) -> Mapping[str, Mapping[str, GroupMember[C]]]:
        """A read-only view of the producer groups: name -> client id -> member."""
        return MappingProxyType(self._producers)

    def heartbeat(self, heartbeat: Heartbeat, peer: HeartbeatSource[C], now_ms: int) -> HeartbeatOutcome:
        """Insert or renew a client in all its groups."""
        self._connections.add(peer.connection)
        for name in heartbeat.producer_groups:
            members = self._producers.setdefault(name, {})
            old = members.get(heartbeat.client_id)
            if old is not None or len(members) < MEMBERS_PER_GROUP_MAX:
                member = members[heartbeat.client_id] = _member(heartbeat.client_id, peer, now_ms, old)
                self._producers_by_client.setdefault(heartbeat.client_id, {})[name] = member
        if (
            heartbeat.without_subscriptions and heartbeat.fingerprint
        ):  # without a fingerprint it is one of the older form
            return self._renew(heartbeat, peer, now_ms)
        changed = tuple(info.group for info in heartbeat.consumers if self._join(heartbeat, info, peer, now_ms))
        return HeartbeatOutcome(changed)

    def unregister(
        self, client_id: str, producer_group: str | None, consumer_group: str | None, connection: C
    ) -> tuple[str, ...]:
        """A client leaves; return the consumer groups that must rebalance.

        Args:
            connection: the one that says so. As in Java it speaks for the clients that registered through it, and no others.
        """
        if producer_group and _is_on(self._producers.get(producer_group, {}).get(client_id), connection):
            self._leave_producers(producer_group, [client_id])
        if consumer_group and _is_on(self._members(consumer_group).get(client_id), connection):
            self._leave_consumers(consumer_group, [client_id])
            return (consumer_group,)
        return ()

    def drop_connection(self, connection: C) -> tuple[str, ...]:
        """A connection closed: its clients are gone. Return the consumer groups that must rebalance."""
        if connection not in self._connections:
            return ()  # most connections never sent a heartbeat: no search for them
        self._connections.discard(connection)
        return self._drop(lambda member: member.connection == connection)

    def consumers_on(self, connection: C) -> set[str]:
        """Return the client ids of the consumers that registered through a connection."""
        if connection not in self._connections:
            return set()
        members = (member for group in self._consumers.values() for member in group.members.values())
        return {member.client_id for member in members if member.connection == connection}

    def expire(self, now_ms: int, timeout_ms: int) -> tuple[str, ...]:
        """Drop clients that were silent for `timeout_ms`; return the consumer groups that must rebalance."""
        return self._drop(lambda member: member.seen_at_ms + timeout_ms <= now_ms)

    def producer_connection(self, client_id: str) -> C | None:
        """Return the connection of a producer's last heartbeat, None for no such client."""
        memberships = self._producers_by_client.get(client_id)
        return max(memberships.values(), key=_seen_at_ms).connection if memberships else None

    def next_producer(self, group: str) -> C | None:
        """Return the connection of one of a group's producers, another one each time; None without any."""
        members = self._producers.get(group)
        if not members:
            return None
        client_id = next(iter(members))
        member = members[client_id] = members.pop(client_id)
        return member.connection

    def consumer_ids(self, group: str) -> list[str]:
        """Return the client ids of a group's consumers."""
        return list(self._members(group))

    def connections(self, group: str) -> list[C]:
        """Return the connections of a group's consumers, each once."""
        return list(dict.fromkeys(member.connection for member in self._members(group).values()))

    def groups_of(self, topic: str) -> list[str]:
        """Return the consumer groups that subscribe to `topic` now."""
        return [name for name, group in self._consumers.items() if topic in group.subscriptions]

    def _members(self, group: str) -> Mapping[str, GroupMember[C]]:
        found = self._consumers.get(group)
        return {} if found is None else found.members

    def _join(self, heartbeat: Heartbeat, info: ConsumerInfo, peer: HeartbeatSource[C], now_ms: int) -> bool:
        group = self._consumers.setdefault(info.group, ConsumerGroup(info.group))
        group.consume_type = info.consume_type
        group.message_model = info.message_model
        group.consume_from = info.consume_from
        old = group.members.get(heartbeat.client_id)
        if old is None and len(group.members) >= MEMBERS_PER_GROUP_MAX:
            return False
        group.members[heartbeat.client_id] = _member(heartbeat.client_id, peer, now_ms, old)
        is_changed = _subscribe(group, info.subscriptions)
        return is_changed or old is None or old.connection != peer.connection

    def _renew(self, heartbeat: Heartbeat, peer: HeartbeatSource[C], now_ms: int) -> HeartbeatOutcome:
        is_known = True
        for info in heartbeat.consumers:
            member = self._members(info.group).get(heartbeat.client_id)
            if member is None or member.connection != peer.connection:
                is_known = False
            else:
                member.seen_at_ms = now_ms
        return HeartbeatOutcome(needs_subscriptions=not is_known)

    def _drop(self, is_gone: Callable[[GroupMember[C]], bool]) -> tuple[str, ...]:
        for name, members in list(self._producers.items()):
            self._leave_producers(name, [client_id for client_id, member in members.items() if is_gone(member)])
        changed = []
        for name, group in list(self._consumers.items()):
            gone = [client_id for client_id, member in group.members.items() if is_gone(member)]
            if gone:
                self._leave_consumers(name, gone)
                changed.append(name)
        return tuple(changed)

    def _leave_producers(self, name: str, client_ids: Iterable[str]) -> None:
        members = self._producers.get(name, {})
        for client_id in client_ids:
            if members.pop(client_id, None) is not None:
                memberships = self._producers_by_client[client_id]
                del memberships[name]
                if not memberships:
                    del self._producers_by_client[client_id]
        if not members:
            self._producers.pop(name, None)

    def _leave_consumers(self, name: str, client_ids: Iterable[str]) -> None:
        members = self._consumers[name].members
        for client_id in client_ids:
            members.pop(client_id, None)
        if not members:
            del self._consumers[name]


def _is_on(member: GroupMember[C] | None, connection: C) -> bool:
    return member is not None and member.connection == connection


def _seen_at_ms(member: GroupMember[C]) -> int:
    return member.seen_at_ms


def _member(client_id: str, peer: HeartbeatSource[C], now_ms: int, old: GroupMember[C] | None) -> GroupMember[C]:
    """Return a client as it is known from now on. What it says of itself counts once for each connection, as in Java."""
    if old is not None and old.connection == peer.connection:
        old.seen_at_ms = now_ms
        return old
    return GroupMember(client_id, peer.connection, peer.language, peer.version, now_ms)


def _subscribe(group: ConsumerGroup[C], subscriptions: Iterable[Subscription]) -> bool:
    """Replace a group's subscriptions by the newer ones; True when the set of filters changed."""
    wanted = {subscription.topic: subscription for subscription in subscriptions}
    is_changed = False
    for topic in [topic for topic in group.subscriptions if topic not in wanted]:
        del group.subscriptions[topic]
        is_changed = True
    for topic, subscription in wanted.items():
        old = group.subscriptions.get(topic)
        if old is None or subscription.version > old.version:
            is_changed |= old is None or old.expression != subscription.expression
            group.subscriptions[topic] = subscription
    return is_changed
