"""A record with a value in every field."""

from typing import Any

from orbitmq.model.message import Host, SysFlag
from orbitmq.wire.messages.record import Record, format_record, parse_record

V4 = Host("10.0.0.1", 1234)
V6 = Host("2001:db8::7", 4321)
FIELDS: dict[str, Any] = {
    "topic": "orders",
    "body": b"hello",
    "properties": b"TAGS\x01new\x02KEYS\x01a b\x02",
    "queue_id": 3,
    "flag": -7,
    "queue_offset": 11,
    "physical_offset": 2**33,
    "sys_flag": SysFlag.MULTI_TAGS,
    "born_at_ms": 1_700_000_000_000,
    "born_host": V4,
    "stored_at_ms": 1_700_000_000_001,
    "store_host": Host("10.0.0.2", 10911),
    "reconsume_times": 2,
    "prepared_transaction_offset": 5,
}


def record(**changes: Any) -> bytes:
    return format_record(**{**FIELDS, **changes})


def parsed_record(encoded: bytes | memoryview, physical_offset: int | None = None) -> Record:
    """Parse what is a record, and not the filler at a segment's end."""
    found = parse_record(encoded, physical_offset)
    assert isinstance(found, Record)
    return found
