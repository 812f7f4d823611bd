"""Offsets by queue: those that a group is set to, and those that its clients have got to.

Source: Java ResetOffsetBody, ResetOffsetBodyForC, GetConsumerStatusBody, QueryCorrectionOffsetBody.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from orbitmq.model.route import MessageQueue
from orbitmq.wire import fastjson
from orbitmq.wire.bodies.document import number, parse_body, text
from orbitmq.wire.bodies.heartbeat import parse_queue, queue_document

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
    return {parse_queue(dict(key)): number(offset) for key, offset in found.items()}
