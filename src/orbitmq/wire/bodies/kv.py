"""Key-value tables: the NameServer's store and a broker's run-time values (Java: KVTable)."""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from orbitmq.wire.bodies.document import parse_body, text


def encode_kv_table(table: Mapping[str, str]) -> bytes:
    """Encode a table of text values."""
    return orjson.dumps({"table": dict(table)})


def decode_kv_table(body: bytes) -> dict[str, str]:
    """Decode a table of text values."""
    return parse_body(
        "key-value table",
        body,
        lambda document: {text(key): text(value) for key, value in (document.get("table") or {}).items()},
    )
