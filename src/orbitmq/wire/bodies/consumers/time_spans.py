"""Store times of a topic's messages, queue by queue, and of those that a group has got to.

Source: Java QueryConsumeTimeSpanBody, QueueTimeSpan.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, NamedTuple

import orjson

from orbitmq.model.route import MessageQueue
from orbitmq.wire.bodies.document import number, parse_body
from orbitmq.wire.bodies.heartbeat import parse_queue, queue_document


class QueueTimeSpan(NamedTuple):
    """When messages of one queue were stored, in ms since 1970; -1 where there is none.

    Args:
        consumed_ms: the last one that the group has done, or the queue's first one.
        delay_ms: how long the next one has waited for the group; 0 when there is none.
    """

    queue: MessageQueue
    min_ms: int
    max_ms: int
    consumed_ms: int
    delay_ms: int


def encode_time_spans(spans: Iterable[QueueTimeSpan]) -> bytes:
    """Encode the answer to QUERY_CONSUME_TIME_SPAN."""
    return orjson.dumps({"consumeTimeSpanSet": list(map(_document, spans))})


def decode_time_spans(body: bytes) -> list[QueueTimeSpan]:
    """Decode the answer to QUERY_CONSUME_TIME_SPAN.

    Raises:
        HeaderError: the body is no such answer.
    """
    return parse_body(
        "time spans", body, lambda document: [_parse(found) for found in document.get("consumeTimeSpanSet") or ()]
    )


def _document(span: QueueTimeSpan) -> dict[str, Any]:
    return {
        "consumeTimeStamp": span.consumed_ms,
        "consumeTimeStampStr": _human(span.consumed_ms),
        "delayTime": span.delay_ms,
        "maxTimeStamp": span.max_ms,
        "maxTimeStampStr": _human(span.max_ms),
        "messageQueue": queue_document(span.queue),
        "minTimeStamp": span.min_ms,
        "minTimeStampStr": _human(span.min_ms),
    }


def _human(time_ms: int) -> str:
    """Return a time as Java's programs write it (UtilAll.formatDate), in UTC."""
    moment = datetime.fromtimestamp(time_ms // 1000, UTC)
    return f"{moment:%Y-%m-%d#%H:%M:%S}:{time_ms % 1000:03d}"


def _parse(document: dict[str, Any]) -> QueueTimeSpan:
    return QueueTimeSpan(
        parse_queue(document["messageQueue"]),
        number(document["minTimeStamp"]),
        number(document["maxTimeStamp"]),
        number(document["consumeTimeStamp"]),
        number(document.get("delayTime") or 0),
    )
