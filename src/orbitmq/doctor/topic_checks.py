"""Checks of topics: settings that differ, queues that carry too much, messages without a reader. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean

from orbitmq.doctor.issues import Issue, Severity, command, listed
from orbitmq.doctor.snapshot import Snapshot
from orbitmq.model.route import MessageQueue
from orbitmq.model.topic import Perm, TopicConfig, retention_hours

WARNING, INFO = Severity.WARNING, Severity.INFO

SKEW_MESSAGES_MIN = 1_000
"""Messages that a topic must have before the shares of its queues mean anything."""
SKEW_RATIO = 3
"""Times the mean of the other queues."""
_READERS = frozenset(("offsets", "groups"))
"""What brokers have to tell before a topic can be called unread."""


def settings_differ(snapshot: Snapshot) -> Iterator[Issue]:
    """A topic has other permissions on one broker than on another: some sends or reads fail."""
    for topic, configs in _configs(snapshot).items():
        perms = {name: config.perm for name, config in configs.items()}
        if len(set(perms.values())) > 1:
            text = f"its permissions differ: {listed(f'{name} {_words(perm)}' for name, perm in sorted(perms.items()))}"
            yield Issue(WARNING, "settings-differ", f"topic {topic}", text, command("topic", "config", "show", topic))
        elif perms and not any(perm & Perm.WRITE for perm in perms.values()):
            text = "no broker takes messages for it: the write permission is off everywhere"
            yield Issue(INFO, "settings-differ", f"topic {topic}", text, command("topic", "config", "show", topic))


def unbalanced(snapshot: Snapshot) -> Iterator[Issue]:
    """A topic's queues are spread unevenly over the brokers of a cluster, or lie on one of several alone."""
    masters: dict[str, set[str]] = {}
    for broker in snapshot.masters():
        if "topics" in broker.refusals:
            continue
        masters.setdefault(broker.cluster, set()).add(broker.name)
    cluster_of = {name: cluster for cluster, names in masters.items() for name in names}
    for topic, configs in _configs(snapshot).items():
        counts = {name: config.write_queue_count for name, config in configs.items()}
        for cluster, names in sorted(masters.items()):
            here = {name: count for name, count in counts.items() if cluster_of.get(name) == cluster}
            if not here or len(names) == 1:
                continue
            if len(here) == 1:
                text = (
                    f"it is on {next(iter(here))} alone, of {len(names)} brokers: without that one it takes no messages"
                )
            elif len(set(here.values())) > 1:
                text = f"its write queues differ: {listed(f'{name} {count}' for name, count in sorted(here.items()))}"
            else:
                continue
            yield Issue(INFO, "unbalanced", f"topic {topic}", text, command("topic", "config", "show", topic))


def hot_queue(snapshot: Snapshot) -> Iterator[Issue]:
    """One queue has several times the messages of the others: a skewed key, whose consumer cannot be helped by more of them."""
    for topic, queues in snapshot.user_topics().items():
        counts = {queue: snapshot.queues[queue].max_offset - snapshot.queues[queue].min_offset for queue in queues}
        if len(counts) < 2 or sum(counts.values()) < SKEW_MESSAGES_MIN:
            continue
        hottest = max(counts, key=lambda queue: counts[queue])
        others = fmean(count for queue, count in counts.items() if queue != hottest)
        if counts[hottest] > SKEW_RATIO * others:
            text = (
                f"{_name(hottest)} has {counts[hottest]:,} messages, the others {others:,.0f} on average: "
                "a sharding key that many messages share, or a producer that chooses one queue"
            )
            yield Issue(WARNING, "hot-queue", f"topic {topic}", text, command("topic", "show", topic))


def hidden_messages(snapshot: Snapshot) -> Iterator[Issue]:
    """A topic has messages in queues behind its read queues: no consumer finds them."""
    for topic, configs in _configs(snapshot).items():
        hidden = {
            name: sum(
                stats.max_offset - stats.min_offset
                for queue, stats in snapshot.queues.items()
                if (queue.topic, queue.broker_name) == (topic, name) and queue.queue_id >= config.read_queue_count
            )
            for name, config in configs.items()
        }
        for name, count in hidden.items():
            if count:
                text = f"{count:,} messages on {name} lie behind its {configs[name].read_queue_count} read queues: no consumer finds them"
                fix = command("topic", "config", "set", topic, "--read-queues", "N")
                yield Issue(WARNING, "hidden-messages", f"topic {topic}", text, fix)


def unread_topic(snapshot: Snapshot) -> Iterator[Issue]:
    """A topic has messages, and no group reads it."""
    if not all(group.are_members_known for group in snapshot.groups.values()) or any(
        not _READERS.isdisjoint(broker.refusals) for broker in snapshot.brokers
    ):
        return
    read = {queue.topic for places in snapshot.committed.values() for queue in places}
    read |= {topic for group in snapshot.groups.values() for topic in group.status.subscriptions}
    for topic, queues in snapshot.user_topics().items():
        count = sum(snapshot.queues[queue].max_offset - snapshot.queues[queue].min_offset for queue in queues)
        if count and topic not in read:
            text = f"{count:,} messages, and no group has read any, nor subscribes to it"
            yield Issue(INFO, "unread-topic", f"topic {topic}", text, command("topic", "show", topic))


def order_without_config(snapshot: Snapshot) -> Iterator[Issue]:
    """A topic with an order has no order configuration: when a broker leaves, its keys move to other queues."""
    for topic, configs in _configs(snapshot).items():
        route = snapshot.routes.get(topic)
        if route is not None and not route.order_topic_conf and any(config.order for config in configs.values()):
            text = "it is marked as ordered, and the NameServers have no order configuration: keys move when a broker leaves"
            yield Issue(INFO, "order-without-config", f"topic {topic}", text, command("topic", "route", topic))


def kept_shorter(snapshot: Snapshot) -> Iterator[Issue]:
    """A topic asks for a longer time than the log of its broker keeps messages: they go earlier than its `reserve.time` says."""
    for topic, configs in _configs(snapshot).items():
        hours = {name: retention_hours(config) for name, config in configs.items()}
        for broker in snapshot.masters():
            if hours.get(broker.name, 0) > (kept := broker.kept_hours()):
                text = f"its messages are to be shown for {hours[broker.name]} h, and the log of {broker.name} keeps them for {kept:.0f} h"
                yield Issue(
                    WARNING,
                    "kept-shorter",
                    f"topic {topic}",
                    text,
                    command("broker", "config", "get", "fileReservedTime"),
                )


CHECKS = (settings_differ, unbalanced, hot_queue, hidden_messages, unread_topic, order_without_config, kept_shorter)


def _configs(snapshot: Snapshot) -> dict[str, dict[str, TopicConfig]]:
    """Return each user's topic's settings, by broker name, sorted."""
    found: dict[str, dict[str, TopicConfig]] = {topic: {} for topic in snapshot.user_topics()}
    for broker in snapshot.masters():
        for topic, config in broker.topics.items():
            if topic in found:
                found[topic][broker.name] = config
    return found


def _words(perm: int) -> str:
    return ("r" if perm & Perm.READ else "") + ("w" if perm & Perm.WRITE else "") or "none"


def _name(queue: MessageQueue) -> str:
    return f"{queue.broker_name} queue {queue.queue_id}"
