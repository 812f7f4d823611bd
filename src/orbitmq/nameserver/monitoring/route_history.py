"""The route history: a bounded journal of brokers that registered, changed, expired or were removed, when and why,
and of those that were lost. Pure.

State: the last changes, oldest dropped first. In: `RouteChange` values as the route table publishes them. Out: events for operators, and
the net difference between a moment and now. Nothing is kept on disk: what brokers say next is worth more than what they
said before a restart.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any, NamedTuple

import orjson

from orbitmq.model.route import QueueData
from orbitmq.nameserver.routing.events import Cause, ChangeKind, RouteChange
from orbitmq.wire.slices import Slices

EVENTS_MAX = 1_000
"""Events of one answer."""
TOPICS_IN_EVENT_MAX = 20
"""Topics that one event names unless one topic is asked for; the rest is counted."""

DIFFERENCE_MAX = 20_000
"""Changes that one difference is made of."""
SLICE_CHANGES = 1_000

BROKERS_MAX = 1_000
_NO_GOOD_BYE = (Cause.CONNECTION_CLOSED, Cause.LEASE_EXPIRED)

_Member = tuple[str, int | None]
"""A broker's name and id: it may come back at another address."""


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """A change and its number; numbers are never used twice."""

    number: int
    change: RouteChange


class RouteHistory:
    """The last changes of a route table.

    Args:
        weight_max: how much is kept: every change counts one, and every topic in it one more.
        began_at_ms: since when it is recorded, in ms since 1970.
    """

    def __init__(self, weight_max: int, began_at_ms: int = 0) -> None:
        self._weight_max = weight_max
        self._began_at_ms = began_at_ms
        self._entries: deque[HistoryEntry] = deque()
        self._weight = 0
        self._next_number = 1
        self._forgotten_at_ms: int | None = None

    def add(self, change: RouteChange) -> None:
        """Write down a change, and forget the oldest ones where that makes too many."""
        self._entries.append(HistoryEntry(self._next_number, change))
        self._next_number += 1
        self._weight += 1 + len(change.topics)
        while self._weight > self._weight_max and self._entries:
            gone = self._entries.popleft().change
            self._weight -= 1 + len(gone.topics)
            self._forgotten_at_ms = gone.trigger.at_ms

    def reaches_back_to(self, at_ms: int) -> bool:
        """Return True if everything that happened after `at_ms` is known: written down, and not forgotten."""
        if at_ms < self._began_at_ms:
            return False
        return self._forgotten_at_ms is None or self._forgotten_at_ms < at_ms

    def events(
        self, *, topic: str | None = None, broker_name: str | None = None, since_ms: int = 0, count_max: int = 200
    ) -> list[dict[str, Any]]:
        """Return what happened to a topic, a broker, or anything, newest first, as JSON documents."""
        found: list[dict[str, Any]] = []
        for entry in reversed(self._entries):
            change = entry.change
            if change.trigger.at_ms < since_ms or len(found) >= count_max:
                break
            if broker_name is not None and change.broker_name != broker_name:
                continue
            if topic is not None and topic not in change.topics:
                continue
            found.append(_event(entry, topic))
        return found

    def difference(self, at_ms: int) -> Slices[bytes]:
        """Return what is different now from how it was at `at_ms`, as a JSON document, in slices.

        Something that changed and changed back is not a difference. Of more than DIFFERENCE_MAX changes only the last ones are
        looked at, and the document is not `complete`.
        """
        brokers: dict[tuple[str, str, int], list[str | None]] = {}
        queues: dict[str, dict[str, list[QueueData | None]]] = {}
        seen = work = 0
        # Newest first, so that what is left out is the oldest.
        for entry in tuple(reversed(self._entries)):
            change = entry.change
            if seen > DIFFERENCE_MAX:
                break
            work += 1
            if change.trigger.at_ms >= at_ms:
                seen += 1 + len(change.queues)
                _note_broker(change, brokers)
                for topic, before, after in change.queues:
                    queues.setdefault(topic, {}).setdefault(change.broker_name, [None, after])[0] = before
                    work += 1
                    if work > SLICE_CHANGES:
                        work = 0
                        yield
            if work > SLICE_CHANGES:
                work = 0
                yield
        yield
        topics: list[bytes] = []
        names = sorted(queues)
        for begin in range(0, len(names), SLICE_CHANGES):
            yield
            rows = [
                {"topic": topic, "brokerName": name, "before": _queue(before), "after": _queue(after)}
                for topic in names[begin : begin + SLICE_CHANGES]
                for name, (before, after) in sorted(queues.pop(topic).items())
                if before != after
            ]
            if rows:
                topics.append(orjson.dumps(rows)[1:-1])
        yield
        document = {
            "at": at_ms,
            "complete": self.reaches_back_to(at_ms) and seen <= DIFFERENCE_MAX,
            "brokers": [
                {"cluster": cluster, "brokerName": name, "brokerId": broker_id, "before": before, "after": after}
                for (cluster, name, broker_id), (before, after) in sorted(brokers.items())
                if before != after
            ],
        }
        return b"".join((orjson.dumps(document)[:-1], b',"topics":[', b",".join(topics), b"]}"))


class LostBroker(NamedTuple):
    """A broker that is gone: `cluster/name:id`, the same with its address, why and when; and since when in ms since 1970."""

    name: str
    text: str
    at_ms: int


class LostBrokers:
    """The last thousand lost brokers."""

    def __init__(self) -> None:
        self._brokers: dict[_Member, LostBroker] = {}

    def note(self, change: RouteChange) -> None:
        """Take note of a change of the routes: a broker is lost, comes back, or is taken out on purpose."""
        if change.kind is ChangeKind.TOPICS_CHANGED:
            return
        member = (change.broker_name, change.broker_id)
        self._brokers.pop(member, None)
        cause, at_ms, _ = change.trigger
        if change.kind is ChangeKind.BROKER_LEFT and cause in _NO_GOOD_BYE:
            name = f"{change.cluster}/{change.broker_name}:{change.broker_id}"
            since = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds").removesuffix("+00:00")
            self._brokers[member] = LostBroker(name, f"{name} at {change.address} ({cause}, {since}Z)", at_ms)
            if len(self._brokers) > BROKERS_MAX:
                del self._brokers[next(iter(self._brokers))]

    def forget(self, broker_name: str, broker_id: int) -> None:
        """Miss a broker no longer."""
        self._brokers.pop((broker_name, broker_id), None)

    def since(self, since_ms: int) -> Sequence[LostBroker]:
        """Return the lost brokers at a time (ms since 1970) or later, in that order."""
        return [broker for broker in self._brokers.values() if broker.at_ms >= since_ms]


def _note_broker(change: RouteChange, brokers: dict[tuple[str, str, int], list[str | None]]) -> None:
    """Note what a change that is older than all noted before says of a broker's address."""
    if change.broker_id is None or change.kind is ChangeKind.TOPICS_CHANGED:
        return
    is_gone = change.kind is ChangeKind.BROKER_LEFT
    before = change.address if is_gone else change.previous_address
    key = (change.cluster, change.broker_name, change.broker_id)
    brokers.setdefault(key, [None, None if is_gone else change.address])[0] = before


def describe(change: RouteChange) -> str:
    """Return a change as one line for the log."""
    trigger = change.trigger
    broker = change.broker_name if change.broker_id is None else f"{change.broker_name}:{change.broker_id}"
    what = f"{change.kind}: {change.cluster}/{broker}"
    if change.address:
        what += f" at {change.address}"
    if change.previous_address and change.previous_address != change.address:
        what += f" instead of {change.previous_address}"
    if change.queues:
        gone = sum(after is None for after in change.queues.after)
        new = sum(before is None for before in change.queues.before)
        what += f", {new} topics added, {gone} removed, {len(change.queues) - new - gone} changed"
        what += f" ({', '.join(change.queues.topics[:3])}{' …' if len(change.queues) > 3 else ''})"
    return f"{what}; {trigger.cause}{f' by {trigger.remote}' if trigger.remote else ''}"


def _event(entry: HistoryEntry, topic: str | None) -> dict[str, Any]:
    change = entry.change
    # A change may have tens of thousands of topics, of which few are shown.
    queues = islice((queue for queue in change.queues if topic is None or queue.topic == topic), TOPICS_IN_EVENT_MAX)
    event: dict[str, Any] = {
        "number": entry.number,
        "at": change.trigger.at_ms,
        "kind": change.kind,
        "cause": change.trigger.cause,
        "remote": change.trigger.remote,
        "cluster": change.cluster,
        "brokerName": change.broker_name,
        "brokerId": change.broker_id,
        "address": change.address,
        "previousAddress": change.previous_address,
        "detail": change.detail,
        "topicCount": len(change.topics),
        "topics": [
            {"topic": queue.topic, "before": _queue(queue.before), "after": _queue(queue.after)} for queue in queues
        ],
    }
    return event


def _queue(queue: QueueData | None) -> dict[str, int] | None:
    if queue is None:
        return None
    return {
        "readQueueNums": queue.read_queue_count,
        "writeQueueNums": queue.write_queue_count,
        "perm": queue.perm,
        "topicSysFlag": queue.topic_sys_flag,
    }
