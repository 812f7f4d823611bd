"""Checks of consumer groups: messages lost to retention, members that disagree, and why one is slow. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from orbitmq.doctor.issues import Issue, Severity, command, listed
from orbitmq.doctor.snapshot import GroupFacts, Snapshot
from orbitmq.model.group import MessageModel, gone_count
from orbitmq.model.route import MessageQueue
from orbitmq.model.topic import DLQ_PREFIX, RETRY_PREFIX, Perm
from orbitmq.wire.bodies.consumer_info import RunningInfo

ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO

EXPIRES_MS = 6 * 3_600_000
"""Unread messages are named when so little is left of the time that they are kept."""
DELAY_MS = 10 * 60_000
"""A group is slow when its oldest unread message is older."""
CACHED_MAX = 1_000
"""Messages of one queue that a client caches before it stops pulling (pullThresholdForQueue)."""
SLOW_HANDLER_MS = 1_000
RETRIES_MAX = 100
QUEUES_MAX = 65_536
"""Queues of a topic on one broker that are looked at: a route may say any number."""


def unread_deleted(snapshot: Snapshot) -> Iterator[Issue]:
    """A group stands before the first message of a queue: what lay between was deleted unread."""
    for group, places in _places(snapshot).items():
        lost: dict[str, int] = {}
        for queue, offset in places.items():
            stats = snapshot.queues.get(queue)
            if stats is not None and (gone := gone_count(offset, stats.min_offset)):
                lost[queue.topic] = lost.get(queue.topic, 0) + gone
        for topic, count in sorted(lost.items()):
            text = f"{count:,} messages of {topic} were deleted before it read them"
            yield Issue(ERROR, "unread-deleted", f"group {group}", text, command("group", "lag", group))


def unread_expires(snapshot: Snapshot) -> Iterator[Issue]:
    """A group's oldest unread message will be deleted soon: the time that brokers keep messages ends before the group comes there."""
    masters = {broker.name: broker for broker in snapshot.masters()}
    for name in sorted(snapshot.groups):
        soonest: tuple[float, MessageQueue] | None = None
        for queue, delay_ms in _kept_delays(snapshot, name).items():
            if (master := masters.get(queue.broker_name)) is None:
                continue
            left = master.kept_hours(queue.topic) * 3_600_000 - delay_ms
            if left < EXPIRES_MS and (soonest is None or left < soonest[0]):
                soonest = left, queue
        if soonest is not None:
            left, queue = soonest
            when = f"in {_span(left)}" if left > 0 else "with the next deletion of files"
            text = (
                f"its oldest unread message of {queue.topic} ({queue.broker_name} queue {queue.queue_id}) goes {when}"
            )
            severity = WARNING if left > 0 else ERROR
            yield Issue(severity, "unread-expires", f"group {name}", text, command("group", "lag", name))


def subscriptions_differ(snapshot: Snapshot) -> Iterator[Issue]:
    """Members of one group subscribe differently: each broker keeps the last one's word, and messages go past the others."""
    for name, group in sorted(snapshot.groups.items()):
        told = {client_id: _subscriptions(name, info) for client_id, info in sorted(group.clients.items())}
        kinds: dict[tuple[tuple[str, str], ...], list[str]] = {}
        for client_id, subscriptions in told.items():
            kinds.setdefault(tuple(sorted(subscriptions.items())), []).append(client_id)
        if len(kinds) > 1:
            text = "its members subscribe differently: " + "; ".join(
                f"{listed(clients, 2)}: {', '.join(f'{topic} {tags}' for topic, tags in kind) or 'nothing'}"
                for kind, clients in list(kinds.items())[:3]
            )
            yield Issue(ERROR, "subscriptions-differ", f"group {name}", text, command("group", "show", name))


def queue_without_owner(snapshot: Snapshot) -> Iterator[Issue]:
    """A group is online, and no member reads one of its queues."""
    for name, group in sorted(snapshot.groups.items()):
        clients = group.clients
        is_whole = group.are_members_known and len(clients) == len(group.status.clients) > 0
        is_popping = any(not info.queues for info in clients.values())
        if not is_whole or is_popping or group.status.message_model is MessageModel.BROADCASTING:
            continue
        owned = {queue for info in clients.values() for queue, found in info.queues.items() if not found.is_dropped}
        for topic in sorted(group.status.subscriptions):
            missing = sorted(_readable(snapshot, topic) - owned)
            if missing and not topic.startswith(RETRY_PREFIX):
                names = listed(f"{queue.broker_name} queue {queue.queue_id}" for queue in missing)
                text = f"no member reads {names} of {topic}; while members come and go this lasts some seconds"
                yield Issue(WARNING, "queue-without-owner", f"group {name}", text, command("group", "show", name))


def more_clients_than_queues(snapshot: Snapshot) -> Iterator[Issue]:
    """A group has more members than queues to read: some do nothing."""
    for name, group in sorted(snapshot.groups.items()):
        topics = [topic for topic in group.status.subscriptions if not topic.startswith(RETRY_PREFIX)]
        queues = max((len(_readable(snapshot, topic)) for topic in topics), default=0)
        members = len(group.status.clients)
        has_owners = any(info.queues for info in group.clients.values())  # with POP, no member owns a queue
        if members > queues > 0 and has_owners and group.status.message_model is MessageModel.CLUSTERING:
            text = f"{members} members share {queues} queues: {members - queues} have none (more queues, or POP, would help)"
            yield Issue(INFO, "more-clients-than-queues", f"group {name}", text, command("group", "show", name))


def slow_group(snapshot: Snapshot) -> Iterator[Issue]:
    """A group that is online is behind, with the cause as far as its clients tell."""
    for name, group in sorted(snapshot.groups.items()):
        delays = _kept_delays(snapshot, name)
        if not group.status.clients or not delays or max(delays.values()) < DELAY_MS:
            continue
        queue = max(delays, key=lambda queue: delays[queue])
        lag = snapshot.lag(name)
        text = (
            f"{lag:,} messages behind, the oldest {_span(delays[queue])} old "
            f"({queue.topic} {queue.broker_name} queue {queue.queue_id}){_cause(snapshot, group, delays)}"
        )
        yield Issue(WARNING, "slow-group", f"group {name}", text, command("group", "lag", name))


def group_gone(snapshot: Snapshot) -> Iterator[Issue]:
    """A group has messages to read, and no member has registered: it is offline, or of clients that do not register."""
    for name, group in sorted(snapshot.groups.items()):
        lag = snapshot.lag(name)
        if lag and not group.status.clients and group.are_members_known:
            oldest = max(_kept_delays(snapshot, name).values(), default=0)
            text = f"{lag:,} messages wait for it, and no member has registered" + (
                f"; the oldest is {_span(oldest)} old" if oldest else ""
            )
            severity = WARNING if oldest >= DELAY_MS else INFO
            yield Issue(severity, "group-gone", f"group {name}", text, command("group", "show", name))


def dead_letters(snapshot: Snapshot) -> Iterator[Issue]:
    """Messages were given up after all their retries."""
    for topic, count, newest_ms in _counts(snapshot, DLQ_PREFIX):
        group = topic.removeprefix(DLQ_PREFIX)
        age = f", the newest {_span(snapshot.taken_at_ms - newest_ms)} ago" if newest_ms else ""
        text = f"{count:,} dead letters{age}"
        yield Issue(WARNING, "dead-letters", f"group {group}", text, command("dlq", "show", group))


def retries_wait(snapshot: Snapshot) -> Iterator[Issue]:
    """Many failed messages of a group wait for another attempt."""
    for group, places in _places(snapshot).items():
        waiting = sum(
            max(0, snapshot.queues[queue].max_offset - max(offset, snapshot.queues[queue].min_offset))
            for queue, offset in places.items()
            if queue.topic.startswith(RETRY_PREFIX) and queue in snapshot.queues
        )
        if waiting >= RETRIES_MAX:
            text = f"{waiting:,} messages wait to be consumed again: its handlers fail"
            yield Issue(WARNING, "retries-wait", f"group {group}", text, command("group", "lag", group))


CHECKS = (
    unread_deleted,
    unread_expires,
    subscriptions_differ,
    queue_without_owner,
    more_clients_than_queues,
    slow_group,
    group_gone,
    dead_letters,
    retries_wait,
)


def _places(snapshot: Snapshot) -> dict[str, Mapping[MessageQueue, int]]:
    """Return what each group of users has committed and goes on from, sorted by group."""
    return {group: snapshot.used_offsets(group) for group in sorted(snapshot.groups)}


def _kept_delays(snapshot: Snapshot, group: str) -> dict[MessageQueue, int]:
    """Return how old the next message for a group is in each queue in which it is still there."""
    used = snapshot.used_offsets(group)
    return {queue: delay for queue, delay in snapshot.groups[group].delays.items() if _is_kept(snapshot, used, queue)}


def _is_kept(snapshot: Snapshot, used: Mapping[MessageQueue, int], queue: MessageQueue) -> bool:
    """Whether the next message for a group is still there: of a deleted one, or of none, brokers cannot tell the age.

    Java's tell of a queue without a committed offset that its next message is as old as 1970.
    """
    offset = used.get(queue)
    stats = snapshot.queues.get(queue)
    return offset is not None and stats is not None and stats.min_offset <= offset < stats.max_offset


def _counts(snapshot: Snapshot, prefix: str) -> Iterator[tuple[str, int, int]]:
    """Yield each topic of a prefix that has messages: how many, and when the newest came."""
    found: dict[str, tuple[int, int]] = {}
    for queue, stats in snapshot.queues.items():
        if queue.topic.startswith(prefix):
            count, newest_ms = found.get(queue.topic, (0, 0))
            found[queue.topic] = count + stats.max_offset - stats.min_offset, max(newest_ms, stats.updated_at_ms)
    yield from ((topic, count, newest_ms) for topic, (count, newest_ms) in sorted(found.items()) if count)


def _subscriptions(group: str, info: RunningInfo) -> dict[str, str]:
    """Return what a member subscribes to, without its own retry topic; tags in one order."""
    return {
        subscription.topic: " || ".join(sorted(part.strip() for part in subscription.expression.split("||")))
        for subscription in info.subscriptions
        if subscription.topic != RETRY_PREFIX + group
    }


def _readable(snapshot: Snapshot, topic: str) -> set[MessageQueue]:
    route = snapshot.routes.get(topic)
    return {
        MessageQueue(topic, data.broker_name, queue_id)
        for data in (() if route is None else route.queues)
        if data.perm & Perm.READ
        for queue_id in range(min(data.read_queue_count, QUEUES_MAX))
    }


def _cause(snapshot: Snapshot, group: GroupFacts, delays: Mapping[MessageQueue, int]) -> str:
    """Return why a group is slow, as far as its clients tell."""
    causes = []
    full = [
        client_id
        for client_id, info in sorted(group.clients.items())
        if any(found.cached_count >= CACHED_MAX for found in info.queues.values())
    ]
    if full:
        causes.append(
            f"{listed(full, 2)}: flow control, the cache of a queue is full: handlers are slower than the inflow"
        )
    slow = {
        client_id: max(found.consume_ms for found in info.statistics.values())
        for client_id, info in sorted(group.clients.items())
        if info.statistics
    }
    slowest = max(slow, key=lambda client_id: slow[client_id], default=None)
    if slowest is not None and slow[slowest] >= SLOW_HANDLER_MS:
        causes.append(f"handlers of {slowest} take {slow[slowest]:,.0f} ms a message")
    failing = [
        client_id
        for client_id, info in sorted(group.clients.items())
        if any(found.failed_rate > found.done_rate for found in info.statistics.values())
    ]
    if failing:
        causes.append(f"handlers of {listed(failing, 2)} fail more often than they succeed")
    late = sum(delay >= DELAY_MS for delay in delays.values())
    if late == 1 and len(_all_queues(snapshot, delays)) > 1:
        causes.append("only this queue is late: its messages are slower, or a key has too many of them")
    return "; " + "; ".join(causes) if causes else ""


def _all_queues(snapshot: Snapshot, delays: Mapping[MessageQueue, int]) -> set[MessageQueue]:
    topics = {queue.topic for queue in delays}
    return {queue for queue in snapshot.queues if queue.topic in topics}


def _span(time_ms: float) -> str:
    seconds = max(0, int(time_ms / 1000))
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}" if size > 60 else f"{seconds // size} {unit}"
    return f"{seconds} s"
