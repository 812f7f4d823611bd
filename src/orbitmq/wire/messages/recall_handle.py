"""Recall handles: what a producer keeps in order to take a delayed message back. Pure.

`v1 <topic> <broker name> <time> <unique key>` in URL-safe base64. Source: Java RecallMessageHandle.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error
from typing import NamedTuple

from orbitmq.errors import InvalidArgument

_VERSION = "v1"
_PARTS = 5
_LENGTH_MAX = 1024


class RecallHandle(NamedTuple):
    """Which message a handle means. `time` is when it is due, in ms, as text."""

    topic: str
    broker_name: str
    time: str
    unique_key: str


def format_recall_handle(handle: RecallHandle) -> str:
    """Encode a handle."""
    return urlsafe_b64encode(" ".join((_VERSION, *handle)).encode()).decode()


def parse_recall_handle(text: str) -> RecallHandle:
    """Decode a handle.

    Raises:
        InvalidArgument: it is none.
    """
    try:
        if not 0 < len(text) <= _LENGTH_MAX:
            raise ValueError("length")
        encoded = text.encode("ascii")
        # Java takes one without its padding, too.
        if not encoded.replace(b"-", b"").replace(b"_", b"").rstrip(b"=").isalnum():
            raise ValueError("alphabet")
        parts = urlsafe_b64decode(encoded + b"=" * (-len(encoded) % 4)).decode().split(" ")
    except (ValueError, Error):
        raise InvalidArgument("recall_handle", text, "a handle that a send was answered with") from None
    if parts[0] != _VERSION or len(parts) < _PARTS:
        raise InvalidArgument("recall_handle", text, "a handle that a send was answered with")
    return RecallHandle(*parts[1:_PARTS])
