"""Handles of popped messages: what a consumer sends back to acknowledge one (Java: extraInfo, the property POP_CK). Pure.

`checkpoint-offset pop-time invisible-time revive-queue retry broker queue [message-offset]`, with blanks between them. Whatever
follows counts for nothing: Java's proxy appends the message's place in the CommitLog.

Source: Java ExtraInfoUtil, KeyBuilder.
"""

from __future__ import annotations

import re
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
    """Return the topic whose retries `topic` holds, itself when it is no retry topic of the group."""
    for separator in "+_":
        prefix = f"{RETRY_PREFIX}{group}{separator}"
        if topic.startswith(prefix):
            return topic[len(prefix) :]
    return topic
