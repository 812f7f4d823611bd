"""Handles of popped messages (Java: extraInfo, POP_CK), and the texts of a pop's answer that they are made from. Pure.

`checkpoint-offset pop-time invisible-time revive-queue retry broker queue [message-offset]`, with blanks between them. Whatever
follows counts for nothing: Java's proxy appends the message's place in the CommitLog.

Source: Java ExtraInfoUtil, KeyBuilder.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from orbitmq.errors import InvalidArgument
from orbitmq.model.topic import RETRY_PREFIX

ORDER_REVIVE_QUEUE = 999
"""Stands for the revive queue of messages that are consumed in order: those have no checkpoint."""
HANDLE_LENGTH_MAX = 512
"""Characters of a handle; the longest that a broker makes, with a name of 255, has less than 400."""

NORMAL, RETRY_V1, RETRY_V2 = "0", "1", "2"
"""Which topic a message was popped from: the one asked for, or one of the two forms of the group's retry topic."""
_FIELDS = ("checkpoint offset", "pop time", "invisible time", "revive queue")
_NUMBER = re.compile(r"-?[0-9]{1,19}")
_FIELDS_MIN, _FIELDS_KNOWN = 6, 8


class Handle(NamedTuple):
    """A handle's fields.

    Args:
        start_offset: the queue offset at which the message's checkpoint begins.
        revive_queue_id: the queue of the revive topic that the checkpoint is in.
        retry: NORMAL, RETRY_V1 or RETRY_V2.
        queue_offset: the message's own; None: not said.
    """

    start_offset: int
    pop_time_ms: int
    invisible_ms: int
    revive_queue_id: int
    retry: str
    broker_name: str
    queue_id: int
    queue_offset: int | None = None


def format_handle(handle: Handle) -> str:
    """Return a handle as it travels."""
    return " ".join(str(field) for field in handle if field is not None)


def parse_handle(text: str) -> Handle:
    """Parse a handle. The queue may be missing, as Java's broker allows it to: it is -1 then.

    Raises:
        InvalidArgument: not one.
    """
    if len(text) > HANDLE_LENGTH_MAX:
        raise InvalidArgument("extraInfo", f"{len(text)} characters", f"at most {HANDLE_LENGTH_MAX}")
    fields = text.split(" ")
    if len(fields) < _FIELDS_MIN:
        raise InvalidArgument("extraInfo", text[:80], f"{_FIELDS_MIN} fields or more with blanks between them")
    numbers = [_parse_number(name, field) for name, field in zip(_FIELDS, fields, strict=False)]
    retry, broker_name = fields[4], fields[5]
    if retry not in (NORMAL, RETRY_V1, RETRY_V2):
        raise InvalidArgument("extraInfo", f"retry {retry[:20]!r}", "0, 1 or 2")
    queue_id, queue_offset = -1, None
    if len(fields) > _FIELDS_MIN:
        queue_id = _parse_number("queue", fields[_FIELDS_MIN])
    if len(fields) >= _FIELDS_KNOWN:
        queue_offset = _parse_number("offset", fields[_FIELDS_KNOWN - 1])
    start, pop_time_ms, invisible_ms, revive_queue_id = numbers
    return Handle(start, pop_time_ms, invisible_ms, revive_queue_id, retry, broker_name, queue_id, queue_offset)


def _parse_number(name: str, text: str) -> int:
    value = int(text) if _NUMBER.fullmatch(text) else -1
    if not 0 <= value < 2**63:
        raise InvalidArgument("extraInfo", f"{name} {text[:24]!r}", "a number from 0 to 2^63 - 1")
    return value


def retry_kind(topic: str) -> str:
    """Return which form of a retry topic `topic` is, NORMAL for none."""
    if not topic.startswith(RETRY_PREFIX):
        return NORMAL
    return RETRY_V2 if "+" in topic else RETRY_V1


def pop_retry_topic(topic: str, group: str, kind: str) -> str:
    """Return the topic that messages of `topic` wait in once a group has not acknowledged them; NORMAL: itself."""
    if kind == NORMAL:
        return topic
    return f"{RETRY_PREFIX}{group}{'+' if kind == RETRY_V2 else '_'}{topic}"


def normal_topic(topic: str, group: str) -> str:
    """Return the topic whose retries `topic` holds, itself when it is not a retry topic of the group."""
    for separator in "+_":
        prefix = f"{RETRY_PREFIX}{group}{separator}"
        if topic.startswith(prefix):
            return topic[len(prefix) :]
    return topic


_FIELD_COUNT = 3


class PoppedQueue(NamedTuple):
    """The messages of one queue in a pop's answer.

    Args:
        retry: which topic they came from, as in their handles.
        start_offset: where their checkpoint begins.
        offsets: their own.
    """

    retry: str
    queue_id: int
    start_offset: int
    offsets: Sequence[int]


def format_start_offsets(queues: Iterable[PoppedQueue]) -> str:
    """Return `startOffsetInfo`."""
    return ";".join(f"{queue.retry} {queue.queue_id} {queue.start_offset}" for queue in queues)


def format_message_offsets(queues: Iterable[PoppedQueue]) -> str:
    """Return `msgOffsetInfo`."""
    return ";".join(f"{queue.retry} {queue.queue_id} {','.join(map(str, queue.offsets))}" for queue in queues)


def format_order_counts(retry: str, queue_id: int, counts: Mapping[int, int], default: int) -> str:
    """Return one queue's part of `orderCountInfo`.

    Args:
        counts: how often messages were tried before, by offset; messages that were not are left out.
        default: of the queue's messages that are not named; clients of old read it alone.
    """
    parts = [f"{retry} {order_count_key(queue_id, offset)} {count}" for offset, count in counts.items()]
    return ";".join([*parts, f"{retry} {queue_id} {default}"])


def order_count_key(queue_id: int, queue_offset: int) -> str:
    """Return the word that stands for a message in `orderCountInfo`."""
    return f"qo{queue_id}%{queue_offset}"


def parse_popped_queues(start_offsets: str | None, message_offsets: str | None) -> list[PoppedQueue]:
    """Return the queues of an answer, in its order.

    Raises:
        InvalidArgument: the texts are not such, or do not belong together.
    """
    starts = {(retry, queue): _number(start) for retry, queue, start in _parts("startOffsetInfo", start_offsets)}
    queues = []
    for retry, queue, offsets in _parts("msgOffsetInfo", message_offsets):
        start = starts.get((retry, queue))
        if start is None:
            raise InvalidArgument("msgOffsetInfo", f"{retry} {queue}"[:80], "queues that startOffsetInfo names")
        queues.append(PoppedQueue(retry, _number(queue), start, [_number(offset) for offset in offsets.split(",")]))
    return queues


def parse_order_counts(text: str | None) -> dict[tuple[str, str], int]:
    """Return how often messages were tried before, by retry and queue, or retry and the message's word.

    Raises:
        InvalidArgument: the text is not such.
    """
    return {(retry, word): _number(count) for retry, word, count in _parts("orderCountInfo", text)}


def _parts(name: str, text: str | None) -> Iterator[tuple[str, str, str]]:
    for part in (text or "").split(";") if text else ():
        fields = part.split(" ")
        if len(fields) != _FIELD_COUNT:
            raise InvalidArgument(name, part[:80], "three fields with blanks between them")
        yield fields[0], fields[1], fields[2]


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InvalidArgument("offset", text[:24], "a number") from None
