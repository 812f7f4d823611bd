"""Facts for the lists of topics and groups, of all rows, from the last two snapshots of the cluster. Pure.

Snapshots are taken once a minute anyway: lists that are sorted by a rate or a lag need no request for each topic or group.
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

    `in_per_s` counts what was stored, `out_per_s` what its groups committed, between the two snapshots. `oldest_unread_ms` is the
    age of the oldest message that a group has still to read; None, too, where there is none.
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
    """Topics and groups by name, those of the last snapshot.

    `holders` names the brokers of each topic: those of its route, and those that were in it before they were lost.
    """

    topics: Mapping[str, TopicFacts] = field(default_factory=dict)
    groups: Mapping[str, GroupFacts] = field(default_factory=dict)
    holders: Mapping[str, frozenset[str]] = field(default_factory=dict)


def list_facts(snapshot: Snapshot, before: Snapshot | None, earlier: ListFacts | None = None) -> ListFacts:
    """Return what the lists show.

    Args:
        before: the snapshot before this one, for the rates; None: there was none.
        earlier: the facts then.
    """
    offsets = {group: snapshot.used_offsets(group) for group in snapshot.groups}
    holders = _holders(snapshot, {} if earlier is None else earlier.holders)
    return ListFacts(_topics(snapshot, before, offsets, holders), _groups(snapshot, before, offsets), holders)


def chart_values(lists: ListFacts, snapshot: Snapshot) -> dict[tuple[str, str], float | None]:
    """Return the values of charts by kind and name: rates (1/s), lags, and the disk in use at each broker's address (percent)."""
    values: dict[tuple[str, str], float | None] = {}
    for topic, facts in lists.topics.items():
        values["topic in", topic], values["topic out", topic] = facts.in_per_s, facts.out_per_s
    for group, group_facts in lists.groups.items():
        values["group out", group], values["lag", group] = group_facts.out_per_s, group_facts.lag
    for broker in snapshot.brokers:
        ratio = broker.runtime_number("commitLogDiskRatio")
        values["disk", broker.address] = None if ratio is None or ratio < 0 else 100 * ratio  # Java: -1 without a disk
    return values


Offsets = Mapping[str, Mapping[MessageQueue, int]]
"""Committed offsets by group."""
Holders = Mapping[str, frozenset[str]]
"""Names of brokers by topic."""


def _holders(snapshot: Snapshot, earlier: Holders) -> Holders:
    found = {topic: frozenset(data.broker_name for data in route.queues) for topic, route in snapshot.routes.items()}
    silent = frozenset(snapshot.silent)  # a lost broker is in no route
    for topic, names in earlier.items():
        if names & silent:
            found[topic] = found.get(topic, frozenset()) | names & silent
    return found


def _topics(snapshot: Snapshot, before: Snapshot | None, offsets: Offsets, holders: Holders) -> dict[str, TopicFacts]:
    queues: dict[str, list[MessageQueue]] = {}
    for queue in snapshot.queues:
        queues.setdefault(queue.topic, []).append(queue)
    groups: dict[str, set[str]] = {}
    committed: dict[str, list[tuple[str, MessageQueue]]] = {}
    for group, read_queues in offsets.items():
        for topic in (*snapshot.groups[group].status.subscriptions, *(queue.topic for queue in read_queues)):
            groups.setdefault(topic, set()).add(group)
        for queue in read_queues:
            committed.setdefault(queue.topic, []).append((group, queue))
    ends = {queue: stats.max_offset for queue, stats in snapshot.queues.items()}
    ends_before = {} if before is None else {queue: stats.max_offset for queue, stats in before.queues.items()}
    seconds = _seconds(snapshot, before)
    silent = _silent_topics(snapshot, before, holders)
    return dict.fromkeys(silent, TopicFacts()) | {
        topic: TopicFacts(
            brokers=len({queue.broker_name for queue in own}),
            queues=len(own),
            messages=sum(ends[queue] - snapshot.queues[queue].min_offset for queue in own),
            in_per_s=_rate(((ends[queue], ends_before.get(queue)) for queue in own), seconds),
            out_per_s=_out_rate(committed.get(topic, ()), snapshot, before),
            groups=len(groups.get(topic, ())),
            oldest_unread_ms=_oldest(committed.get(topic, ()), snapshot),
            updated_at_ms=max(snapshot.queues[queue].updated_at_ms for queue in own) or None,
        )
        for topic, own in queues.items()
        if topic not in silent
    }


def _groups(snapshot: Snapshot, before: Snapshot | None, offsets: Offsets) -> dict[str, GroupFacts]:
    found = {}
    for group, facts in snapshot.groups.items():
        members = len(facts.status.clients) if facts.are_members_known else None
        if snapshot.silent:
            found[group] = GroupFacts(members=members)
            continue
        group_queues = [(group, queue) for queue in offsets[group]]
        # Members of a broadcasting group keep their offsets themselves.
        is_broadcast = facts.status.message_model is MessageModel.BROADCASTING
        found[group] = GroupFacts(
            members=members,
            lag=sum(_unread(snapshot, *group_queue) for group_queue in group_queues) if group_queues else None,
            out_per_s=None if is_broadcast or (before and before.silent) else _out_rate(group_queues, snapshot, before),
            oldest_unread_ms=_oldest(group_queues, snapshot),
        )
    return found


def _out_rate(group_queues: Iterable[tuple[str, MessageQueue]], now: Snapshot, before: Snapshot | None) -> float | None:
    pairs = (
        (now.committed[group][queue], None if before is None else before.committed.get(group, {}).get(queue))
        for group, queue in group_queues
    )
    return _rate(pairs, _seconds(now, before))


def _rate(pairs: Iterable[tuple[int, int | None]], seconds: float) -> float | None:
    """Return the growth of offsets, given as (now, before), per second; an offset that was reset to an earlier one counts as 0."""
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


def _oldest(group_queues: Iterable[tuple[str, MessageQueue]], snapshot: Snapshot) -> int | None:
    """Return the age of the oldest unread message; None where it is unknown for a queue with unread ones."""
    ages = [
        snapshot.groups[group].delays.get(queue) for group, queue in group_queues if _unread(snapshot, group, queue)
    ]
    return None if None in ages else max((age for age in ages if age is not None), default=None)


def _unread(snapshot: Snapshot, group: str, queue: MessageQueue) -> int:
    stats = snapshot.queues.get(queue)
    return 0 if stats is None else unread_count(snapshot.committed[group][queue], stats.min_offset, stats.max_offset)


def _seconds(snapshot: Snapshot, before: Snapshot | None) -> float:
    return 0.0 if before is None else max(0, snapshot.taken_at_ms - before.taken_at_ms) / 1000


def _silent_topics(snapshot: Snapshot, before: Snapshot | None, holders: Holders) -> set[str]:
    """Return the topics with queues on a broker that was silent or lost in one of the snapshots."""
    silent = {*snapshot.silent, *(() if before is None else before.silent)}
    if frozenset(snapshot.silent) - frozenset().union(*holders.values()):  # lost before the first look: of any topic
        return set(holders)
    return {topic for topic, names in holders.items() if names & silent}
