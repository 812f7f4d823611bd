"""Facts for the lists of topics and groups, of all rows, from the last two looks at the cluster. Pure.

The looks are taken anyway, once a minute: lists that are sorted by a rate or a lag need no request for each topic or group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from orbitmq.doctor.snapshot import Snapshot
from orbitmq.model.group import MessageModel, unread_count
from orbitmq.model.route import MessageQueue


class TopicFacts(NamedTuple):
    """What is known of one topic; None: unknown.

    `in_per_s` counts what came, `out_per_s` what its groups committed, between the two looks. `oldest_unread_ms` is the age of the
    oldest message that a group has still to read; None, too, where there is none.
    """

    brokers: int | None = None
    queues: int | None = None
    messages: int | None = None
    in_per_s: float | None = None
    out_per_s: float | None = None
    groups: int | None = None
    oldest_unread_ms: int | None = None
    updated_at_ms: int | None = None


class GroupFacts(NamedTuple):
    """What is known of one group; None: unknown. Its fields mean what those of a topic do."""

    members: int | None = None
    lag: int | None = None
    out_per_s: float | None = None
    oldest_unread_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ListFacts:
    """Topics and groups by name; those that no look has seen are missing."""

    topics: Mapping[str, TopicFacts] = field(default_factory=dict)
    groups: Mapping[str, GroupFacts] = field(default_factory=dict)


def list_facts(snapshot: Snapshot, before: Snapshot | None) -> ListFacts:
    """Return what the lists show.

    Args:
        before: the look before this one, for the rates; None: there was none.
    """
    offsets = {group: snapshot.used_offsets(group) for group in snapshot.groups}
    return ListFacts(_topics(snapshot, before, offsets), _groups(snapshot, before, offsets))


def values_of(lists: ListFacts, snapshot: Snapshot) -> dict[tuple[str, str], float | None]:
    """Return what charts show: the rates of topics and groups, the lag of groups, and the disk in use at each broker's address in percent."""
    found: dict[tuple[str, str], float | None] = {}
    for topic, facts in lists.topics.items():
        found["topic in", topic], found["topic out", topic] = facts.in_per_s, facts.out_per_s
    for group, known in lists.groups.items():
        found["group out", group], found["lag", group] = known.out_per_s, known.lag
    for broker in snapshot.brokers:
        ratio = broker.runtime_number("commitLogDiskRatio")
        found["disk", broker.address] = None if ratio is None or ratio < 0 else 100 * ratio  # Java: -1 without a disk
    return found


Offsets = Mapping[str, Mapping[MessageQueue, int]]


def _topics(snapshot: Snapshot, before: Snapshot | None, offsets: Offsets) -> dict[str, TopicFacts]:
    queues: dict[str, list[MessageQueue]] = {}
    for queue in snapshot.queues:
        queues.setdefault(queue.topic, []).append(queue)
    readers: dict[str, set[str]] = {}
    committed: dict[str, list[tuple[str, MessageQueue]]] = {}
    for group, places in offsets.items():
        for topic in (*snapshot.groups[group].status.subscriptions, *(queue.topic for queue in places)):
            readers.setdefault(topic, set()).add(group)
        for queue in places:
            committed.setdefault(queue.topic, []).append((group, queue))
    ends = {queue: stats.max_offset for queue, stats in snapshot.queues.items()}
    ends_before = {} if before is None else {queue: stats.max_offset for queue, stats in before.queues.items()}
    seconds = _seconds(snapshot, before)
    silent = _silent_topics(snapshot, before)
    return {
        topic: TopicFacts()
        if topic in silent
        else TopicFacts(
            brokers=len({queue.broker_name for queue in own}),
            queues=len(own),
            messages=sum(ends[queue] - snapshot.queues[queue].min_offset for queue in own),
            in_per_s=_rate(((ends[queue], ends_before.get(queue)) for queue in own), seconds),
            out_per_s=_out_rate(committed.get(topic, ()), snapshot, before),
            groups=len(readers.get(topic, ())),
            oldest_unread_ms=_oldest(committed.get(topic, ()), snapshot),
            updated_at_ms=max(snapshot.queues[queue].updated_at_ms for queue in own) or None,
        )
        for topic, own in queues.items()
    }


def _groups(snapshot: Snapshot, before: Snapshot | None, offsets: Offsets) -> dict[str, GroupFacts]:
    found = {}
    for group, facts in snapshot.groups.items():
        members = len(facts.status.clients) if facts.are_members_told else None
        if snapshot.silent:
            found[group] = GroupFacts(members=members)
            continue
        places = [(group, queue) for queue in offsets[group]]
        is_broadcast = (
            facts.status.message_model is MessageModel.BROADCASTING
        )  # its members keep their offsets themselves
        found[group] = GroupFacts(
            members=members,
            lag=sum(_unread(snapshot, *place) for place in places) if places else None,
            out_per_s=None if is_broadcast or (before and before.silent) else _out_rate(places, snapshot, before),
            oldest_unread_ms=_oldest(places, snapshot),
        )
    return found


def _out_rate(places: Iterable[tuple[str, MessageQueue]], now: Snapshot, before: Snapshot | None) -> float | None:
    pairs = (
        (now.committed[group][queue], None if before is None else before.committed.get(group, {}).get(queue))
        for group, queue in places
    )
    return _rate(pairs, _seconds(now, before))


def _rate(pairs: Iterable[tuple[int, int | None]], seconds: float) -> float | None:
    """Return how much offsets grew in a second: what went back, as by a reset, counts as nothing."""
    if not seconds:
        return None
    total, known, unknown = 0, 0, 0
    for now, then in pairs:
        if then is None:
            unknown += 1
        else:
            known += 1
            total += max(0, now - then)
    return None if unknown and not known else total / seconds


def _oldest(places: Iterable[tuple[str, MessageQueue]], snapshot: Snapshot) -> int | None:
    """Return the age of the oldest unread message; None where a queue with unread ones has not told it."""
    ages = [snapshot.groups[group].delays.get(queue) for group, queue in places if _unread(snapshot, group, queue)]
    return max((age for age in ages if age is not None), default=None) if None not in ages else None


def _unread(snapshot: Snapshot, group: str, queue: MessageQueue) -> int:
    stats = snapshot.queues.get(queue)
    return 0 if stats is None else unread_count(snapshot.committed[group][queue], stats.min_offset, stats.max_offset)


def _seconds(snapshot: Snapshot, before: Snapshot | None) -> float:
    return 0.0 if before is None else max(0, snapshot.taken_at_ms - before.taken_at_ms) / 1000


def _silent_topics(snapshot: Snapshot, before: Snapshot | None) -> set[str]:
    """Return the topics with queues on a broker that was silent in one of the looks."""
    silent = {*snapshot.silent, *(() if before is None else before.silent)}
    return {
        topic for topic, route in snapshot.routes.items() if any(data.broker_name in silent for data in route.queues)
    }
