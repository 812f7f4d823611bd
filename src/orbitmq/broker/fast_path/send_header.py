"""The headers of plain sends, read by one JSON parse, without building a command. Pure."""

from __future__ import annotations

from typing import Any

import orjson

from orbitmq.codes import RequestCode
from orbitmq.model.message import SysFlag

TEXTS_MAX = 4_096
"""Texts of a kind that are remembered; with more, all are forgotten and learnt again."""
TEXT_SIZE_MAX = 1_024
"""Bytes of a text that is remembered."""
_CODE = int(RequestCode.SEND_MESSAGE_V2)
_INT32 = range(-(2**31), 2**31)
_INT64_MAX = 2**63 - 1
_HEAD_KEYS = frozenset("abcdef")

PlainSend = tuple[str, int, int, int, int, bytes, int]
"""topic, queue id, sys_flag, birth time (ms), flag, encoded properties, opaque."""
SendHead = tuple[str, int, int]
"""topic, queue id, sys_flag."""


def parse_plain_send(text: bytes) -> PlainSend | None:
    """Return what a plain send's header says by parsing it as JSON, None when it has to be looked at."""
    try:
        header: dict[str, Any] = orjson.loads(text)
        fields: dict[str, str] = header["extFields"]
        "".join(fields.values())  # one pass in C that fails on whatever is not text
        queue_id, sys_flag, born_at_ms, flag = int(fields["e"]), int(fields["f"]), int(fields["g"]), int(fields["h"])
        opaque = header["opaque"]
        get = fields.get
        if (
            header["code"] != _CODE  # it began with that, but of two codes the last one counts
            or header["flag"] != 0
            or not _is_number(header["flag"])
            or not _is_number(opaque)
            or get("j", "0") != "0"
            or get("m", "false") != "false"
            or "l" in fields
            or "a" not in fields
            or "c" not in fields
            or not _is_count(fields["d"])
            or not _is_plain(sys_flag)
            or queue_id not in _INT32
            or flag not in _INT32
            or not 0 <= born_at_ms <= _INT64_MAX
            or not _is_number(header.get("version", 0))
        ):
            return None
        return fields["b"], queue_id, sys_flag, born_at_ms, flag, get("i", "").encode(), opaque
    except (KeyError, ValueError, TypeError, AttributeError):
        return None


def parse_head(text: bytes) -> SendHead | None:
    """Return what the beginning of a header says, up to the value of its field "f"; None when it is not plain.

    It has to be whole by itself, and to hold nothing but the code and the fields "a" to "f": then nothing that follows changes what it says.
    """
    try:
        document = orjson.loads(text + b'"}}')
        fields = document["extFields"]
        if document.keys() != {"code", "extFields"} or document["code"] != _CODE:
            return None
        if fields.keys() != _HEAD_KEYS or not _is_count(fields["d"]):
            return None
        head = fields["b"], int(fields["e"]), int(fields["f"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    is_text = all(type(value) is str for value in fields.values())
    return head if is_text and head[1] in _INT32 and _is_plain(head[2]) else None


def _is_number(value: Any) -> bool:
    return type(value) is int and value in _INT32


def _is_count(text: str) -> bool:
    return text.isdecimal() and len(text) <= 9  # `isdigit` takes what `int` does not


def _is_plain(sys_flag: int) -> bool:
    """Return True if a flag has no bits that only the broker sets; that of a half message is looked at with its properties."""
    reserved = sys_flag & SysFlag.FOR_THE_BROKER
    return sys_flag in _INT32 and reserved in (0, SysFlag.TRANSACTION_PREPARED)
