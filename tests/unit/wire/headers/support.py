"""The claim that all header tests make: these fields travel, under these names, with these values when left out."""

from __future__ import annotations

from collections.abc import Mapping

from orbitmq.wire.header import decode_header, encode_header


def travels_as(header: object, fields: Mapping[str, str]) -> bool:
    """Return True if a header is written as exactly these ext fields, and read from them again."""
    return encode_header(header) == fields and decode_header(type(header), fields) == header
