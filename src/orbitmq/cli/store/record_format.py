"""The forms in which records of the log are printed: words on a line, or a JSON object. Pure.

Records may hold anything: what no terminal should see is escaped.
"""

from __future__ import annotations

import base64
from typing import Any

from orbitmq.cli.terminal.output import format_time
from orbitmq.cli.terminal.printable import printable
from orbitmq.wire.messages.properties import find_property
from orbitmq.wire.messages.record import Record

COLUMNS = ("offset", "size", "topic", "queue", "queue_offset", "stored_at", "body_size", "tags", "keys")
_TIME_MS_MAX = 253_402_300_799_999
"""The last that has four digits for its year."""


def format_line(record: Record, *, with_body: bool) -> str:
    """Return a record as words in the order of COLUMNS; its body, if asked for, is the rest of the line."""
    words = [
        record.physical_offset,
        record.size,
        printable(record.topic, is_cell=True) or "-",
        record.queue_id,
        record.queue_offset,
        _time(record.stored_at_ms),
        len(record.body),
        _property(record, b"TAGS"),
        _property(record, b"KEYS"),
    ]
    line = "  ".join(map(str, words))
    return f"{line}  {printable(record.body)}" if with_body else line


def format_document(record: Record, *, with_body: bool) -> dict[str, Any]:
    """Return a record as the fields of a JSON object; text that is no UTF-8 is escaped, such a body given in base64."""
    document: dict[str, Any] = {
        "offset": record.physical_offset,
        "size": record.size,
        "topic": record.topic,
        "queue": record.queue_id,
        "queue_offset": record.queue_offset,
        "stored_at_ms": record.stored_at_ms,
        "born_at_ms": record.born_at_ms,
        "born_host": str(record.born_host),
        "sys_flag": record.sys_flag,
        "reconsume_times": record.reconsume_times,
        "properties": _properties(record.properties),
        "body_size": len(record.body),
    }
    if with_body:
        body = bytes(record.body)
        try:
            document["body"] = body.decode()
        except UnicodeDecodeError:
            document["body_base64"] = base64.b64encode(body).decode()
    return document


def _properties(encoded: bytes) -> dict[str, str]:
    pairs = (pair.partition(b"\x01") for pair in encoded.split(b"\x02") if pair)
    return {_text(name): _text(value) for name, _, value in pairs}


def _text(encoded: bytes) -> str:
    return encoded.decode("utf-8", "backslashreplace")


def _property(record: Record, name: bytes) -> str:
    return printable(find_property(record.properties, name) or b"-", is_cell=True)


def _time(time_ms: int) -> str:
    return (format_time(time_ms) if time_ms <= _TIME_MS_MAX else str(time_ms)) or "-"
