"""Offsets of many queues: as values, as JSON, and as the bounds that a query names. Pure.

They travel as `{"topic": {"broker": {"queue id": offset}}}`, from users and in Spark's checkpoints: the old connector's
form. Keys are strings because JSON's are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from orbitmq.errors import InvalidArgument
from orbitmq.model.route import MessageQueue

Offsets = Mapping[MessageQueue, int]
OffsetsJson = dict[str, dict[str, dict[str, int]]]

INT64_MAX = 2**63 - 1
EARLIEST = -2
LATEST = -1
"""Marks for an offset that is not known yet, as in Kafka's connector."""


@dataclass(frozen=True)
class Earliest:
    """The oldest message that is still there."""


@dataclass(frozen=True)
class Latest:
    """The end of the queue: behind the newest message."""


@dataclass(frozen=True)
class Timestamp:
    """The first message stored at or after a time, in ms since 1970."""

    ms: int


@dataclass(frozen=True)
class QueueTimes:
    """In each queue the first message stored at or after a time of its own, in ms since 1970."""

    times_ms: Mapping[MessageQueue, int]


@dataclass(frozen=True)
class Committed:
    """What a consumer group has committed; the oldest message in queues that it has not consumed yet."""

    group: str


Bound = Earliest | Latest | Timestamp | QueueTimes | Committed | Offsets
"""Where reading starts or ends, as a query names it. Offsets may hold the marks EARLIEST and LATEST."""


def format_offsets(offsets: Offsets) -> OffsetsJson:
    """Return offsets as JSON values, sorted: Spark compares positions as text."""
    document: OffsetsJson = {}
    for (topic, broker_name, queue_id), offset in sorted(offsets.items()):
        document.setdefault(topic, {}).setdefault(broker_name, {})[str(queue_id)] = offset
    return document


def parse_offsets(document: Any, least: int = EARLIEST) -> dict[MessageQueue, int]:
    """Return the offsets that JSON values spell.

    Raises:
        InvalidArgument: another shape, a queue id that is not a number, or an offset below `least` or beyond 64 bits.
    """
    offsets: dict[MessageQueue, int] = {}
    for topic, brokers in json_items("offsets", document):
        for broker_name, queues in json_items(f"offsets of topic {topic}", brokers):
            for queue_id, offset in json_items(f"offsets of broker {broker_name}", queues):
                if not queue_id.isdecimal():
                    raise InvalidArgument("queue id", queue_id, "a whole number as a string")
                if type(offset) is not int or not least <= offset <= INT64_MAX:
                    raise InvalidArgument(
                        f"offset of queue {queue_id}", offset, f"a whole number from {least} to {INT64_MAX}"
                    )
                offsets[MessageQueue(topic, broker_name, int(queue_id))] = offset
    return offsets


def resolve_marks(offsets: Offsets, earliest: Offsets, latest: Offsets, option: str) -> dict[MessageQueue, int]:
    """Replace the marks EARLIEST and LATEST by the queues' offsets, and check that every queue is named.

    Args:
        option: which of a query's options holds `offsets`; stands in the error.

    Raises:
        InvalidArgument: names the queues that are missing, or that do not exist.
    """
    check_queues(offsets, latest, option)
    marks = {EARLIEST: earliest, LATEST: latest}
    return {queue: marks[offset][queue] if offset in marks else offset for queue, offset in offsets.items()}


def check_queues(named: Offsets, found: Iterable[MessageQueue], option: str) -> None:
    """Raise InvalidArgument unless a value was named for each queue that was found, and for no other."""
    missing, unknown = sorted(set(found) - named.keys()), sorted(named.keys() - set(found))
    if missing or unknown:
        reason = (
            f"missing {queue_names(missing)}" if missing else f"not among the topic's queues: {queue_names(unknown)}"
        )
        raise InvalidArgument(option, format_offsets(named), f"a value for each queue that exists ({reason})")


def parse_queues(document: Any) -> frozenset[MessageQueue]:
    """Return the queues that JSON values spell: `{"topic": {"broker": [queue id]}}`.

    Raises:
        InvalidArgument: another shape, or a queue id that is not a number.
    """
    queues = set()
    for topic, brokers in json_items("queues", document):
        for broker_name, queue_ids in json_items(f"queues of topic {topic}", brokers):
            if not isinstance(queue_ids, list) or not all(type(found) is int and found >= 0 for found in queue_ids):
                raise InvalidArgument(f"queues of broker {broker_name}", queue_ids, "a list of queue ids")
            queues |= {MessageQueue(topic, broker_name, queue_id) for queue_id in queue_ids}
    return frozenset(queues)


def json_items(what: str, document: Any) -> Iterable[tuple[str, Any]]:
    """Return the items of a JSON object; `what` stands in the error when it is something else."""
    if not isinstance(document, dict) or not all(isinstance(key, str) for key in document):
        raise InvalidArgument(what, document, "a JSON object")
    return document.items()


def queue_names(queues: Iterable[MessageQueue]) -> str:
    """Return queues as logs and errors name them: topic/broker/id, sorted."""
    return ", ".join(f"{topic}/{broker_name}/{queue_id}" for topic, broker_name, queue_id in sorted(queues))
