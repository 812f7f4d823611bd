"""Offsets by queue, of groups and of their clients, and the store times of a topic's messages.

Source: Java ResetOffsetBody, ResetOffsetBodyForC, GetConsumerStatusBody, QueryCorrectionOffsetBody.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

import orjson

from orbitmq.model.route import MessageQueue
from orbitmq.wire import fastjson
from orbitmq.wire.bodies.document import number, parse_body, text
from orbitmq.wire.bodies.heartbeat import parse_queue, parse_queue_key, queue_document

Offsets = Mapping[MessageQueue, int]

CLIENT_BODY_SIZE_MAX = 128 * 1024
"""Bytes of one client's answer that a broker parses: tables keyed by objects take long."""


def encode_offset_table(offsets: Offsets) -> bytes:
    """Encode the offsets that a group is set to (220, and the answer to 222)."""
    return fastjson.dumps_loose({"offsetTable": _table(offsets)})


def encode_offset_list(offsets: Offsets) -> bytes:
    """Encode the same for clients in C++."""
    rows = [{**queue_document(queue), "offset": offset} for queue, offset in offsets.items()]
    return orjson.dumps({"offsetTable": rows})


def decode_offset_table(body: bytes) -> dict[MessageQueue, int]:
    """Decode the offsets that a group is set to, in either form.

    Raises:
        HeaderError: the body is no such table.
    """
    return parse_body("offset table", body, lambda document: _parse_offsets(document.get("offsetTable") or {}))


def decode_committed(body: bytes) -> dict[str, dict[int, int]]:
    """Decode the offsets that all groups have committed at a broker (43): by `topic@group`, then by queue.

    Raises:
        HeaderError: the body is no such table.
    """
    return parse_body("committed offsets", body, parse_committed)


def parse_committed(document: Mapping[str, Any]) -> dict[str, dict[int, int]]:
    """Return the offsets in such a document, those of LMQs included; queue ids may be bare or quoted."""
    table: Mapping[str, Mapping[Any, Any]] = document.get("offsetTable") or {}
    offsets = {
        key: {int(queue_id): int(offset) for queue_id, offset in queues.items()} for key, queues in table.items()
    }
    for key, offset in (document.get("lmqOffsetTable") or {}).items():
        offsets.setdefault(key, {})[0] = int(offset)  # an LMQ is a topic of one queue
    return offsets


def encode_client_offsets(offsets: Offsets) -> bytes:
    """Encode how far a client is in its queues (the answer to 221)."""
    return fastjson.dumps_loose({"consumerTable": {}, "messageQueueTable": _table(offsets)})


def decode_client_offsets(body: bytes) -> dict[MessageQueue, int]:
    """Decode how far a client is in its queues.

    Raises:
        HeaderError: the body is no such table.
    """
    return parse_body("client offsets", body, lambda document: _parse_offsets(document.get("messageQueueTable") or {}))


def encode_clients_offsets(by_client: Mapping[str, Offsets]) -> bytes:
    """Encode how far each of a group's clients is, by client id (the answer to 223)."""
    table = {client_id: _table(offsets) for client_id, offsets in by_client.items()}
    return fastjson.dumps_loose({"consumerTable": table, "messageQueueTable": {}})


def decode_clients_offsets(body: bytes) -> dict[str, dict[MessageQueue, int]]:
    """Decode how far each of a group's clients is.

    Raises:
        HeaderError: the body is no such table.
    """
    return parse_body(
        "clients' offsets",
        body,
        lambda document: {
            text(client_id): _parse_offsets(offsets)
            for client_id, offsets in (document.get("consumerTable") or {}).items()
        },
    )


def encode_corrections(offsets: Mapping[int, int]) -> bytes:
    """Encode the answer to QUERY_CORRECTION_OFFSET: offsets by queue id."""
    return fastjson.dumps_loose({"correctionOffsets": dict(offsets)})


def _table(offsets: Offsets) -> dict[Any, int]:
    return {tuple(queue_document(queue).items()): offset for queue, offset in offsets.items()}


def _parse_offsets(found: Any) -> dict[MessageQueue, int]:
    if isinstance(found, list):
        return {parse_queue(row): number(row["offset"]) for row in found}
    return {parse_queue_key(key): number(offset) for key, offset in found.items()}


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
