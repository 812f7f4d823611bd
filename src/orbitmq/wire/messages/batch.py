"""The body of a batch request (320): several messages in one. Pure.

```
| size 4 | magic 4 = 0 | crc 4 = 0 | flag 4 | body size 4 | body | properties size 2 | properties |   repeated
```
Source: docs/formats/commit_log.md, "Batch body".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import NamedTuple

from orbitmq.errors import HeaderError, InvalidArgument
from orbitmq.model.message import PROPERTIES_SIZE_MAX

_HEAD = Struct(">iiiii")
_PROPERTIES_SIZE = Struct(">H")
ITEM_SIZE_MIN = _HEAD.size + _PROPERTIES_SIZE.size
"""Bytes of a message in a batch besides its body and properties."""


class BatchItem(NamedTuple):
    """One message of a batch; topic, hosts and times are those of the request."""

    flag: int
    body: bytes
    properties: bytes


def encode_batch(items: Iterable[tuple[int, bytes, bytes]]) -> bytes:
    """Encode (flag, body, encoded properties) of each message into one batch body.

    Raises:
        InvalidArgument: properties longer than 32767 bytes.
    """
    parts: list[bytes] = []
    for flag, body, properties in items:
        if len(properties) > PROPERTIES_SIZE_MAX:
            raise InvalidArgument("properties", f"{len(properties)} bytes", f"at most {PROPERTIES_SIZE_MAX} bytes")
        size = ITEM_SIZE_MIN + len(body) + len(properties)
        parts += (_HEAD.pack(size, 0, 0, flag, len(body)), body, _PROPERTIES_SIZE.pack(len(properties)), properties)
    return b"".join(parts)


def parse_batch(encoded: bytes) -> list[BatchItem]:
    """Parse a batch body.

    Raises:
        HeaderError: a length that does not fit, or bytes left over: the request is refused whole.
    """
    return list(iter_batch(encoded))


def iter_batch(encoded: bytes) -> Iterator[BatchItem]:
    """Yield one message of a batch body after another. Raises as `parse_batch`."""
    start = number = 0
    while start < len(encoded):
        if len(encoded) - start < ITEM_SIZE_MIN:
            raise HeaderError(f"batch message {number} is cut short after {len(encoded) - start} bytes")
        size, _magic, _crc, flag, body_size = _HEAD.unpack_from(encoded, start)
        end = start + size
        body_start = start + _HEAD.size
        if not ITEM_SIZE_MIN <= size <= len(encoded) - start or not 0 <= body_size <= size - ITEM_SIZE_MIN:
            raise HeaderError(f"batch message {number} declares {size} bytes with a body of {body_size}")
        body_end = body_start + body_size
        (properties_size,) = _PROPERTIES_SIZE.unpack_from(encoded, body_end)
        properties_start = body_end + _PROPERTIES_SIZE.size
        if properties_start + properties_size != end:
            raise HeaderError(f"batch message {number} declares {properties_size} bytes of properties")
        yield BatchItem(flag, encoded[body_start:body_end], encoded[properties_start:end])
        start = end
        number += 1
