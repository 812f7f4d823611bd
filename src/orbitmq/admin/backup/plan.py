"""Decides about a restore before anything is changed: brokers, topics, groups, queues, and what stands against it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Any, NamedTuple

from orbitmq.admin.backup.manifest import Manifest, QueueFile
from orbitmq.admin.backup.tables import NO_ACCESS, AccessTables, BrokerTables, GroupTopic, is_selected, queue_count
from orbitmq.errors import InvalidArgument
from orbitmq.model.route import MessageQueue
from orbitmq.model.topic import RETRY_PREFIX, Perm, TopicConfig
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


class QueueState(NamedTuple):
    """A queue of the target before the restore: its end, and whether it has messages."""

    end: int
    is_empty: bool


NEW_QUEUE = QueueState(0, is_empty=True)


class Target(NamedTuple):
    """A broker that is restored to."""

    tables: BrokerTables
    queues: dict[MessageQueue, QueueState]
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
    """Messages that go to a queue, behind what it held before the restore."""

    broker: str
    file: QueueFile
    before: QueueState

    @property
    def queue(self) -> MessageQueue:
        """The queue of the target that is filled."""
        return MessageQueue(self.file.topic, self.broker, self.file.queue_id)


class OffsetStep(NamedTuple):
    """An offset that a group gets in a queue: the one that `committed` has become.

    Args:
        base: the queue's end before the restore: where a group goes on that got no messages.
    """

    broker: str
    group: str
    topic: str
    queue_id: int
    committed: int
    base: int


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


def parse_broker_map(texts: Iterable[str]) -> dict[str, str]:
    """Parse `OLD=NEW` of broker names.

    Raises:
        InvalidArgument: one is not of this form, or names a broker again.
    """
    found: dict[str, str] = {}
    for text in texts:
        old, separator, new = text.partition("=")
        if not (old and separator and new) or old in found:
            raise InvalidArgument("map-broker", text, "OLD=NEW, each OLD one time")
        found[old] = new
    return found


def make_plan(
    manifest: Manifest,
    tables: Mapping[str, BrokerTables],
    access: Mapping[str, AccessTables],
    brokers: Mapping[str, str],
    targets: Mapping[str, Target],
    options: RestoreOptions,
    resumed: dict[MessageQueue, QueueState],
) -> RestorePlan:
    """Decide what a restore does.

    Args:
        tables: by the backup's broker names.
        access: likewise; users that are not to be restored are left out.
        brokers: from these to the target's.
        targets: by the target's broker names.
        resumed: queues of the target to what they were when this restore began.
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
        own = _table_steps(broker, topics, groups, access.get(saved, NO_ACCESS), target, options)
        steps += own
        refusals += [
            f"the backup has no password of the user {step.name} on {broker}: it was made by one who is not super"
            for step in own
            if step.kind == "user" and step.action.is_change and not step.value.password
        ]
        if not with_messages:
            continue
        counts = {
            step.name: queue_count(target.tables.topics[step.name] if step.action is Action.LEAVE else step.value)
            for step in own
            if step.kind == "topic"
        }
        before = target.queues | resumed
        filled = set()
        for file in manifest.queues:
            if file.broker != saved or not file.count or not is_selected(file.topic, options.patterns):
                continue
            group = _retried_group(file.topic)
            if group is not None and group not in groups and group not in target.tables.groups:
                remarks.append(f"the messages in {file.topic} are left out on {broker}: it has no group {group}")
                continue
            queue = MessageQueue(file.topic, broker, file.queue_id)
            state, count = before.get(queue, NEW_QUEUE), counts.get(file.topic, 0)
            queues.append(QueueStep(broker, file, state))
            filled.add(queue)
            where = f"queue {file.queue_id} of {file.topic} on {broker}"
            if file.queue_id >= count:
                refusals.append(f"{where}: the topic has {count} queues there (--overwrite changes it)")
            elif queue not in resumed and not state.is_empty and not options.append:
                refusals.append(f"{where} has messages already (--append sends behind them)")
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
            for queue_id, committed in sorted(source.offsets[key].items()):
                queue = MessageQueue(key.topic, broker, queue_id)
                state = before.get(queue, NEW_QUEUE)
                if queue_id >= counts[key.topic]:
                    continue
                # A group that has messages of its own to read there must not leave them out.
                if not state.is_empty and (queue_id in present or queue not in filled):
                    remarks.append(
                        f"the group {key.group} stays where it is in queue {queue_id} of {key.topic} on {broker}"
                    )
                else:
                    offsets.append(OffsetStep(broker, key.group, key.topic, queue_id, committed, state.end))
    return RestorePlan(tuple(steps), tuple(queues), tuple(offsets), tuple(refusals), tuple(dict.fromkeys(remarks)))


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


def topic_to_create(config: TopicConfig, present: TopicConfig | None) -> TopicConfig:
    """Return a topic's settings as a broker is asked for them: attributes with a sign, those to take away as well."""
    before = {} if present is None else present.attributes
    changes = {f"+{_bare(name)}": value for name, value in config.attributes.items() if before.get(name) != value}
    changes |= {f"-{_bare(name)}": "" for name in before if name not in config.attributes}
    return replace(config, attributes=changes)


def opened(config: TopicConfig) -> TopicConfig:
    """Return a topic's settings as long as messages are sent to it: brokers refuse those to a topic that is only read."""
    return replace(config, perm=config.perm | Perm.WRITE)


def _bare(name: str) -> str:
    return name[1:] if name[:1] in ("+", "-") else name
