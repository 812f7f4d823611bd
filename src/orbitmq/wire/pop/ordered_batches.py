"""Batches that groups popped in order, and the content of consumerOrderInfo.json, which keeps them. Pure.

Source: Java ConsumerOrderInfoManager.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from orbitmq.errors import HeaderError
from orbitmq.wire import fastjson
from orbitmq.wire.bodies.document import text

COUNT_MAX = 64
"""Messages of one batch in the file: Java keeps the acknowledged ones as bits of a long."""
_LONG = 2**63
_NONE: Mapping[int, int] = MappingProxyType({})

OrderedPlace = tuple[str, str, int]
"""Topic, group and queue."""


class OrderedBatch(NamedTuple):
    """The messages that a group popped last of a queue, in order. Times are those of the wall clock.

    Args:
        offsets: the messages' queue offsets, ascending.
        invisible_ms: how long they are their consumer's from the pop on.
        noted_at_ms: when this was noted.
        acked: bits of the messages that are acknowledged.
        attempt_id: names the consumer's attempt, which may ask for the same batch again.
        visible_at_ms: by offset: until when a message is its consumer's whose time was changed.
        counts: by offset: how often messages were tried before; those that were not are left out.
    """

    offsets: tuple[int, ...]
    pop_time_ms: int
    invisible_ms: int
    noted_at_ms: int
    acked: int = 0
    attempt_id: str | None = None
    visible_at_ms: Mapping[int, int] = _NONE
    counts: Mapping[int, int] = _NONE


def format_ordered_batches(batches: Iterable[tuple[OrderedPlace, OrderedBatch]]) -> bytes:
    """Return the content of consumerOrderInfo.json, numbers bare where they are keys, as fastjson writes them."""
    table: dict[str, dict[int, Any]] = {}
    for (topic, group, queue_id), batch in batches:
        table.setdefault(f"{topic}@{group}", {})[queue_id] = _document(batch)
    return fastjson.dumps_loose({"table": table})


def _document(batch: OrderedBatch) -> dict[str, Any]:
    first, *others = batch.offsets
    document: dict[str, Any] = {} if batch.attempt_id is None else {"a": batch.attempt_id}
    # Java's bits are those of a signed long.
    acked = batch.acked - 2 * _LONG if batch.acked >= _LONG else batch.acked
    document |= {"cm": acked, "i": batch.invisible_ms, "l": batch.noted_at_ms}
    document["o"] = [first, *(offset - first for offset in others)]
    document["oc"] = dict(batch.counts)
    if batch.visible_at_ms:
        document["ot"] = dict(batch.visible_at_ms)
    return {**document, "popTime": batch.pop_time_ms}


def parse_ordered_batches(content: bytes) -> list[tuple[OrderedPlace, OrderedBatch]]:
    """Parse consumerOrderInfo.json; what holds no messages is left out.

    Raises:
        HeaderError: not such a file.
    """
    try:
        document = fastjson.loads(content)
        table = document.get("table") or {}
        found = [
            ((*_split(key), _number("queue", queue_id)), _parse(batch))
            for key, queues in table.items()
            for queue_id, batch in queues.items()
            if batch.get("o")
        ]
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise HeaderError(f"consumerOrderInfo.json: {error}") from None
    return found


def _split(key: str) -> tuple[str, str]:
    topic, separator, group = key.partition("@")
    if not separator:
        raise ValueError(f"{key!r:.80} names no group")
    return topic, group


def _parse(document: Mapping[str, Any]) -> OrderedBatch:
    first, *others = document["o"]
    if len(others) >= COUNT_MAX:
        raise ValueError(f"o has {len(others) + 1} offsets, expected at most {COUNT_MAX}")
    first = _number("o", first)
    attempt_id = document.get("a")
    return OrderedBatch(
        (first, *(first + _number("o", distance) for distance in others)),
        _number("popTime", document.get("popTime") or 0),
        _number("i", document.get("i") or 0),
        _number("l", document.get("l") or 0),
        int(document.get("cm") or 0) % (2 * _LONG),
        None if attempt_id is None else text(attempt_id),
        _numbers("ot", document.get("ot")),
        _numbers("oc", document.get("oc")),
    )


def _numbers(name: str, found: Mapping[Any, Any] | None) -> Mapping[int, int]:
    return {_number(name, key): _number(name, value) for key, value in (found or {}).items()}


def _number(name: str, value: Any) -> int:
    number = int(value)
    if not 0 <= number < _LONG:
        raise ValueError(f"{name} is {value!r:.40}, expected a number from 0 to 2^63 - 1")
    return number
