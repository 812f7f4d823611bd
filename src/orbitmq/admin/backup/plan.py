"""Decides about a restore before anything is changed: brokers, topics, groups, queues, and what stands against it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from orbitmq.admin.backup.manifest import Manifest
from orbitmq.admin.backup.selection import is_selected
from orbitmq.admin.backup.steps import (
    NO_ACCESS,
    Action,
    GroupStep,
    OffsetStep,
    QueueState,
    QueueStep,
    RestoreOptions,
    RestorePlan,
    RulesStep,
    Target,
    TopicStep,
    UserStep,
)
from orbitmq.admin.backup.tables import AccessTables, BrokerTables, GroupTopic
from orbitmq.errors import InvalidArgument
from orbitmq.model.access import Acl, User
from orbitmq.model.topic import RETRY_PREFIX, Perm, TopicConfig
from orbitmq.wire.bodies.groups import GroupConfig, group_document
from orbitmq.wire.bodies.registration import topic_document


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
    resumed: Mapping[tuple[str, str, int], QueueState],
) -> RestorePlan:
    """Decide what a restore does.

    Args:
        tables: by the backup's broker names.
        access: likewise; users that are not to be restored are left out.
        brokers: from these to the target's.
        targets: by the target's broker names.
        resumed: broker, topic and queue id of the target to what the queue was when this restore began.
    """
    topics: list[TopicStep] = []
    groups: list[GroupStep] = []
    users: list[UserStep] = []
    rules: list[RulesStep] = []
    queues: list[QueueStep] = []
    offsets: list[OffsetStep] = []
    refusals: list[str] = []
    remarks = [f"not in the backup: {problem}" for problem in manifest.problems]
    with_messages = manifest.has_messages and not options.tables_only
    files = [file for file in manifest.queues if with_messages and is_selected(file.topic, options.patterns)]
    for saved, broker in sorted(brokers.items()):
        source, target = tables[saved], targets[broker]
        chosen = {name: config for name, config in source.topics.items() if is_selected(name, options.patterns)}
        keys = [key for key in source.offsets if key.topic in chosen]
        topics += [
            _topic_step(broker, chosen[name], target.tables.topics.get(name), options) for name in sorted(chosen)
        ]
        names = _chosen_groups(source, keys, chosen, options.patterns)
        groups += [_group_step(broker, source.groups[name], target.tables.groups.get(name), options) for name in names]
        made_users, made_rules, lacking = _access_steps(broker, access.get(saved, NO_ACCESS), target.access, options)
        users, rules, refusals = users + made_users, rules + made_rules, refusals + lacking
        own = []
        for file in files:
            if file.broker == saved and file.count:
                group = _retried_group(file.topic)
                if group is None or group in names or group in target.tables.groups:
                    own.append(file)
                else:
                    remarks.append(f"the messages in {file.topic} are left out on {broker}: it has no group {group}")
        counts = {step.config.topic: _queues_then(step, target) for step in topics if step.broker == broker}
        for file in own:
            state = resumed.get((broker, file.topic, file.queue_id))
            before = state or target.queues.get((file.topic, file.queue_id), QueueState(0, True))
            queues.append(QueueStep(broker, file, before.end, before.is_empty))
            where = f"queue {file.queue_id} of {file.topic} on {broker}"
            if file.queue_id >= counts.get(file.topic, 0):
                refusals.append(
                    f"{where}: the topic has {counts.get(file.topic, 0)} queues there (--overwrite changes it)"
                )
            elif state is None and not before.is_empty and not options.append:
                refusals.append(f"{where} has messages already (--append sends behind them)")
        if not with_messages:
            continue
        filled = {(file.topic, file.queue_id) for file in own}
        for key in sorted(keys):
            if key.group not in source.groups and key.group not in target.tables.groups:
                remarks.append(
                    f"the group {key.group} has no settings, as one that was deleted: its offsets are left out"
                )
                continue
            if key.group in target.online:
                remarks.append(f"the group {key.group} has clients online on {broker}: its offsets in {key.topic} stay")
                continue
            for queue_id, committed in sorted(source.offsets[key].items()):
                place = (key.topic, queue_id)
                if queue_id >= counts[key.topic]:
                    continue
                before = resumed.get((broker, *place)) or target.queues.get(place, QueueState(0, True))
                if _is_kept(target, key, queue_id, before, is_filled=place in filled):
                    remarks.append(
                        f"the group {key.group} stays where it is in queue {queue_id} of {key.topic} on {broker}"
                    )
                else:
                    offsets.append(OffsetStep(broker, key.group, key.topic, queue_id, committed, before.end))
    if not with_messages and any(found.offsets for found in tables.values()):
        remarks.append("no messages are restored, so groups keep their offsets: saved ones would mean other messages")
    return RestorePlan(
        tuple(topics),
        tuple(groups),
        tuple(users),
        tuple(rules),
        tuple(queues),
        tuple(offsets),
        tuple(refusals),
        tuple(dict.fromkeys(remarks)),
    )


def _access_steps(
    broker: str, saved: AccessTables, present: AccessTables, options: RestoreOptions
) -> tuple[list[UserStep], list[RulesStep], list[str]]:
    """Return what becomes of users and rules, and what stands against it."""
    known = {user.name: user for user in present.users}
    subjects = {acl.subject: acl for acl in present.rules}
    users = [UserStep(broker, user, _action(user, known.get(user.name), options)) for user in saved.users]
    rules = [RulesStep(broker, acl, _action(acl, subjects.get(acl.subject), options)) for acl in saved.rules]
    lacking = [
        f"the backup has no password of the user {step.user.name} on {broker}: it was made by one who is not super"
        for step in users
        if step.action.is_change and not step.user.password
    ]
    return users, rules, lacking


def _action(saved: User | Acl, present: User | Acl | None, options: RestoreOptions) -> Action:
    if present is None:
        return Action.CREATE
    if present == saved:
        return Action.SAME
    return Action.OVERWRITE if options.overwrite else Action.LEAVE


def _chosen_groups(
    source: BrokerTables, keys: Iterable[GroupTopic], topics: Iterable[str], patterns: Sequence[str]
) -> list[str]:
    """Return the groups to restore: all, or where topics are chosen, those that have read of one, or retry in one."""
    if not patterns:
        return sorted(source.groups)
    names = {key.group for key in keys} | {group for topic in topics if (group := _retried_group(topic)) is not None}
    return sorted(names & source.groups.keys())


def _retried_group(topic: str) -> str | None:
    """Return the group that a retry topic is for: brokers take retries only of groups that they know. None for others.

    POP's retry topics name a topic as well: of such a group there is none, and brokers take no sends to them.
    """
    return topic.removeprefix(RETRY_PREFIX) if topic.startswith(RETRY_PREFIX) else None


def _is_kept(target: Target, key: GroupTopic, queue_id: int, before: QueueState, *, is_filled: bool) -> bool:
    """Say whether a group keeps its offset: one that has messages of its own to read there must not leave them out."""
    has_own = queue_id in target.tables.offsets.get(key, {})
    return not before.is_empty and (has_own or not is_filled)


def _queues_then(step: TopicStep, target: Target) -> int:
    config = target.tables.topics[step.config.topic] if step.action is Action.LEAVE else step.config
    return max(config.read_queue_count, config.write_queue_count)


def _topic_step(broker: str, saved: TopicConfig, present: TopicConfig | None, options: RestoreOptions) -> TopicStep:
    if present is None:
        return TopicStep(broker, saved, Action.CREATE)
    before, after = topic_document(present), topic_document(saved)
    return TopicStep(broker, saved, *_compare(before, after, options))


def _group_step(broker: str, saved: GroupConfig, present: GroupConfig | None, options: RestoreOptions) -> GroupStep:
    if present is None:
        return GroupStep(broker, saved, Action.CREATE)
    before, after = group_document(present), group_document(saved)
    for key in ("brokerId", "whichBrokerWhenConsumeSlowly", "groupRetryPolicy", "subscriptionDataSet"):
        # Of one broker, or written by some versions alone.
        before.pop(key, None)
        after.pop(key, None)
    return GroupStep(broker, saved, *_compare(before, after, options))


def _compare(before: Mapping[str, object], after: Mapping[str, object], options: RestoreOptions) -> tuple[Action, str]:
    differences = [
        f"{key} is {before.get(key)}, not {after[key]}" for key in sorted(after) if before.get(key) != after[key]
    ]
    if not differences:
        return Action.SAME, ""
    return Action.OVERWRITE if options.overwrite else Action.LEAVE, "; ".join(differences)


def topic_to_create(step: TopicStep, present: TopicConfig | None) -> TopicConfig:
    """Return a topic's settings as a broker is asked for them: attributes with a sign, those to take away as well."""
    before = {} if present is None else present.attributes
    wanted = step.config.attributes
    changes = {f"+{_bare(name)}": value for name, value in wanted.items() if before.get(name) != value}
    changes |= {f"-{_bare(name)}": "" for name in before if name not in wanted}
    return replace(step.config, attributes=changes)


def opened(config: TopicConfig) -> TopicConfig:
    """Return a topic's settings as long as messages are sent to it: brokers refuse those to a topic that is only read."""
    return replace(config, perm=config.perm | Perm.WRITE)


def is_closed(config: TopicConfig) -> bool:
    """Say whether a topic is only read, or not even that."""
    return not config.perm & Perm.WRITE


def _bare(name: str) -> str:
    return name[1:] if name[:1] in ("+", "-") else name
