"""Decides about a restore before anything is changed: brokers, topics, groups, queues, and what stands against it. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, NamedTuple

from orbitmq.admin.backup.manifest import Manifest, QueueFile
from orbitmq.admin.backup.tables import NO_ACCESS, AccessTables, BrokerTables, GroupTopic, is_selected
from orbitmq.errors import ClientError, InvalidArgument
from orbitmq.model.group import SYSTEM_GROUPS
from orbitmq.model.route import MessageQueue
from orbitmq.model.topic import NAME_LENGTH_MAX, RETRY_PREFIX, Perm, TopicConfig, kind_of
from orbitmq.wire.bodies.groups import GroupConfig, group_document
from orbitmq.wire.bodies.registration import topic_document

_NOT_COMPARED = {"brokerId", "whichBrokerWhenConsumeSlowly", "groupRetryPolicy", "subscriptionDataSet"}
"""Settings of groups that are of one broker, or written by some versions alone."""


class Action(StrEnum):
    """What is done about a topic, a group, a user or a user's rules."""

    CREATE = "create"
    SAME = "is there"
    LEAVE = "leave"
    """It is there with other settings."""
    OVERWRITE = "overwrite"

    @property
    def is_change(self) -> bool:
        """True where the broker is told."""
        return self in (Action.CREATE, Action.OVERWRITE)


class RestoreOptions(NamedTuple):
    """What is restored, and how.

    Args:
        patterns: only topics that fit one of these; empty: all.
        tables_only: send no messages.
        overwrite: change topics and groups that have other settings.
        append: send messages behind those that a queue has.
        brokers: from the backup's broker names to others.
        users: restore users and their rules as well.
        skip_refused: leave out messages that the target takes never, as too large ones.
    """

    patterns: tuple[str, ...] = ()
    tables_only: bool = False
    overwrite: bool = False
    append: bool = False
    brokers: Mapping[str, str] = {}
    users: bool = False
    skip_refused: bool = False


@dataclass(slots=True)
class QueueProgress:
    """How far one queue of the target is.

    Args:
        base: its end before the restore.
        was_empty: it had no messages then.
        next_old: queue offset in the backup up to which messages are sent or left out.
        next_new: queue offset in the target behind the last one that is sent; `base` by default.
        sent: messages.
        moved: committed offsets of groups to the new offset of the first message that the group had not read.
        skipped: offsets in the backup of messages that the target refused and that are left out, to the reason.
        waiting: committed offsets that are not in `moved` yet, the largest first.
    """

    base: int = 0
    was_empty: bool = True
    next_old: int = 0
    next_new: int = 0
    sent: int = 0
    moved: dict[int, int] = field(default_factory=dict)
    skipped: dict[int, str] = field(default_factory=dict)
    waiting: list[int] = field(default_factory=list, compare=False)

    def __post_init__(self) -> None:
        self.next_new = max(self.next_new, self.base)

    def add(self, old: int, new: int) -> None:
        """Note that the message at `old` is at `new` now.

        Raises:
            ClientError: it is before one that was sent earlier.
        """
        if new < self.next_new:
            raise ClientError(
                f"the message at offset {old} is at {new} now, expected {self.next_new} at least: messages before it are lost"
            )
        while self.waiting and self.waiting[-1] <= old:
            self.moved[self.waiting.pop()] = new
        self.next_old, self.next_new, self.sent = old + 1, new + 1, self.sent + 1

    def skip(self, old: int, reason: str) -> None:
        """Note that the message at `old` is left out."""
        self.skipped[old] = reason
        self.next_old = old + 1

    def find(self, committed: int) -> int:
        """Return where a group goes on that had `committed`: at the first restored message that it had not read.

        That is the first message of all where the group was behind the beginning of its queue, and the end where it had
        read every message.
        """
        return self.moved.get(committed, self.next_new)


class Target(NamedTuple):
    """A broker that is restored to."""

    tables: BrokerTables
    queues: dict[MessageQueue, QueueProgress]
    online: frozenset[str] = frozenset()
    """Groups with clients."""
    access: AccessTables = NO_ACCESS


class TableStep(NamedTuple):
    """An entry of one broker's tables.

    Args:
        kind: `topic`, `group`, `user` or `rules`: `value` is a TopicConfig, a GroupConfig, a User or an Acl.
        detail: what differs.
    """

    broker: str
    kind: str
    name: str
    action: Action
    detail: str
    value: Any


class QueueStep(NamedTuple):
    """Messages that go to a queue of the target, behind what it held before the restore."""

    queue: MessageQueue
    file: QueueFile
    place: QueueProgress

    def __str__(self) -> str:
        return f"queue {self.queue.queue_id} of {self.queue.topic} on {self.queue.broker_name}"


class OffsetStep(NamedTuple):
    """An offset that a group gets in a queue of the target: the one that `committed` has become."""

    queue: MessageQueue
    group: str
    committed: int
    place: QueueProgress


class RestorePlan(NamedTuple):
    """Everything that a restore does, in this order.

    Args:
        refusals: why nothing may be done.
        remarks: what is left out, and why.
    """

    tables: tuple[TableStep, ...]
    queues: tuple[QueueStep, ...]
    offsets: tuple[OffsetStep, ...]
    refusals: tuple[str, ...]
    remarks: tuple[str, ...]


def map_brokers(saved: Iterable[str], present: Iterable[str], given: Mapping[str, str]) -> dict[str, str]:
    """Return for each broker of a backup the one that its part goes to: of the same name, unless another is given.

    Raises:
        InvalidArgument: a broker is not there, or two would go to one.
    """
    found: dict[str, str] = {}
    known = sorted(present)
    for name in given:
        if name not in saved:
            raise InvalidArgument("map-broker", name, f"a broker of the backup: {', '.join(sorted(saved))}")
    for name in sorted(saved):
        target = given.get(name, name)
        if target not in known:
            allowed = f"a master of the cluster ({', '.join(known) or 'there is none now'}): --map-broker {name}=OTHER"
            raise InvalidArgument("broker", target, allowed)
        if target in found.values():
            raise InvalidArgument("map-broker", target, "one broker for each broker of the backup")
        found[name] = target
    return found


def make_plan(
    manifest: Manifest,
    tables: Mapping[str, BrokerTables],
    access: Mapping[str, AccessTables],
    brokers: Mapping[str, str],
    targets: Mapping[str, Target],
    options: RestoreOptions,
    own: Container[str],
    resumed: dict[MessageQueue, QueueProgress],
) -> RestorePlan:
    """Decide what a restore does.

    Args:
        tables: by the backup's broker names.
        access: likewise; users that are not to be restored are left out.
        brokers: from these to the target's.
        targets: by the target's broker names.
        own: topics that the target's brokers name after themselves and their clusters.
        resumed: how far an interrupted restore was.
    """
    steps: list[TableStep] = []
    queues: list[QueueStep] = []
    offsets: list[OffsetStep] = []
    refusals: list[str] = []
    remarks = [f"not in the backup: {problem}" for problem in manifest.problems]
    with_messages = manifest.has_messages and not options.tables_only
    if not with_messages and any(found.offsets for found in tables.values()):
        remarks.append("no messages are restored, so groups keep their offsets: saved ones would mean other messages")
    for saved, broker in sorted(brokers.items()):
        source, target = tables[saved], targets[broker]
        topics = {name: config for name, config in source.topics.items() if is_selected(name, options.patterns)}
        keys = sorted(key for key in source.offsets if key.topic in topics)
        groups = _chosen_groups(source, keys, topics, options.patterns)
        own_steps = _table_steps(broker, topics, groups, access.get(saved, NO_ACCESS), target, options)
        steps += own_steps
        refusals += [
            f"the backup has no password of the user {step.name} on {broker}: it was made by one who is not super"
            for step in own_steps
            if step.kind == "user" and step.action.is_change and not step.value.password
        ]
        refusals += _refused_names(topics, groups, own, target.tables)
        if not with_messages:
            continue
        counts = {
            step.name: (target.tables.topics[step.name] if step.action is Action.LEAVE else step.value).queue_count
            for step in own_steps
            if step.kind == "topic"
        }
        places = target.queues | resumed
        committed: dict[tuple[str, int], set[int]] = defaultdict(set)
        for key in keys:
            for queue_id, offset in source.offsets[key].items():
                committed[key.topic, queue_id].add(offset)
        filled = set()
        for file in manifest.queues:
            if file.broker != saved or not file.count or not is_selected(file.topic, options.patterns):
                continue
            group = _retried_group(file.topic)
            if group is not None and group not in groups and group not in target.tables.groups:
                remarks.append(f"the messages in {file.topic} are left out on {broker}: it has no group {group}")
                continue
            queue = MessageQueue(file.topic, broker, file.queue_id)
            step = QueueStep(queue, file, places.setdefault(queue, QueueProgress()))
            queues.append(step)
            filled.add(queue)
            end, count = target.queues.get(queue, step.place).base, counts.get(file.topic, 0)
            if file.queue_id >= count:
                refusals.append(f"{step}: the topic has {count} queues there (--overwrite changes it)")
            elif queue not in resumed and not step.place.was_empty and not options.append:
                refusals.append(f"{step} has messages already (--append sends behind them)")
            elif step.place.sent and end < step.place.next_new:
                refusals.append(
                    f"{step} ends at {end}, and was restored up to {step.place.next_new}: another cluster, or one that lost "
                    "messages. To begin again, delete what was restored, and the file of the progress"
                )
            step.place.waiting = sorted(committed[file.topic, file.queue_id] - step.place.moved.keys(), reverse=True)
        for key in keys:
            if key.group not in source.groups and key.group not in target.tables.groups:
                remarks.append(
                    f"the group {key.group} has no settings, as one that was deleted: its offsets are left out"
                )
                continue
            if key.group in target.online:
                remarks.append(f"the group {key.group} has clients online on {broker}: its offsets in {key.topic} stay")
                continue
            present = target.tables.offsets.get(key, {})
            for queue_id, offset in sorted(source.offsets[key].items()):
                queue = MessageQueue(key.topic, broker, queue_id)
                place = places.setdefault(queue, QueueProgress())
                if queue_id >= counts[key.topic]:
                    continue
                # A group that has messages of its own to read there must not leave them out.
                if not place.was_empty and (queue_id in present or queue not in filled):
                    remarks.append(
                        f"the group {key.group} stays where it is in queue {queue_id} of {key.topic} on {broker}"
                    )
                else:
                    offsets.append(OffsetStep(queue, key.group, offset, place))
    return RestorePlan(tuple(steps), tuple(queues), tuple(offsets), tuple(refusals), tuple(dict.fromkeys(remarks)))


def _refused_names(
    topics: Iterable[str], groups: Iterable[str], own: Container[str], present: BrokerTables
) -> Iterator[str]:
    for name in sorted(topics):
        if kind_of(name, own) == "system":
            yield f"the topic {name} is kept by the target for itself: choose others with --topic"
        elif len(name) > NAME_LENGTH_MAX and name not in present.topics:  # retries, dead letters: brokers make them
            yield (
                f"the topic {name} has {len(name)} characters, brokers make one of {NAME_LENGTH_MAX} at most: choose others "
                "with --topic, as '[!%]*'"
            )
    for name in sorted(SYSTEM_GROUPS.intersection(groups)):
        yield f"the group {name} is kept by brokers for themselves, and in no backup"


def _table_steps(
    broker: str,
    topics: Mapping[str, TopicConfig],
    groups: Mapping[str, GroupConfig],
    access: AccessTables,
    target: Target,
    options: RestoreOptions,
) -> list[TableStep]:
    """Return what becomes of a broker's tables. Groups come first: brokers take retries only of those that they know."""
    users = {user.name: user for user in target.access.users}
    rules = {acl.subject: acl for acl in target.access.rules}
    present = target.tables
    entries: list[tuple[str, str, Any, Any]] = [
        *(("group", name, config, present.groups.get(name)) for name, config in sorted(groups.items())),
        *(("topic", name, config, present.topics.get(name)) for name, config in sorted(topics.items())),
        *(("user", user.name, user, users.get(user.name)) for user in access.users),
        *(("rules", acl.subject, acl, rules.get(acl.subject)) for acl in access.rules),
    ]
    documents: dict[str, Callable[[Any], dict[str, Any]]] = {"topic": topic_document, "group": group_document}
    steps = []
    for kind, name, saved, found in entries:
        detail, is_same = "", saved == found
        if found is not None and kind in documents:
            old, new = documents[kind](found), documents[kind](saved)
            differing = [key for key in sorted(new.keys() - _NOT_COMPARED) if old.get(key) != new[key]]
            detail = "; ".join(f"{key} is {old.get(key)}, not {new[key]}" for key in differing)
            is_same = not differing
        if found is None:
            action = Action.CREATE
        elif is_same:
            action = Action.SAME
        else:
            action = Action.OVERWRITE if options.overwrite else Action.LEAVE
        steps.append(TableStep(broker, kind, name, action, detail, saved))
    return steps


def _chosen_groups(
    source: BrokerTables, keys: Iterable[GroupTopic], topics: Iterable[str], patterns: Sequence[str]
) -> Mapping[str, GroupConfig]:
    """Return the groups to restore: all, or where topics are chosen, those that have read of one, or retry in one."""
    if not patterns:
        return source.groups
    names = {key.group for key in keys} | {_retried_group(topic) for topic in topics}
    return {name: config for name, config in source.groups.items() if name in names}


def _retried_group(topic: str) -> str | None:
    """Return the group that a retry topic is for: brokers take retries only of groups that they know. None for others.

    POP's retry topics name a topic as well: of such a group there is none, and brokers take no sends to them.
    """
    return topic.removeprefix(RETRY_PREFIX) if topic.startswith(RETRY_PREFIX) else None


def opened(config: TopicConfig) -> TopicConfig:
    """Return a topic's settings as long as messages are sent to it: brokers refuse those to a topic that is only read."""
    return replace(config, perm=config.perm | Perm.WRITE)
