"""The headers of plain sends, read without building a command: by their text, or by one JSON parse. Pure.

Clients write the same text again and again. Between two sends of one producer to one queue only the birth time, the
properties and the opaque differ:

```
{"code":310,"extFields":{"a":..,"b":TOPIC,..,"e":QUEUE,"f":FLAGS   ","g":" TIME ","h":"0","i":" PROPERTIES
","j":"0",.."n":..},"flag":0,"language":..,"opaque": OPAQUE ,"serializeTypeCurrentRPC":..,"version":..}
```

The three texts around them are parsed once each, completed to a JSON document of their own, and remembered; a text that
holds a key it should not hold is never remembered. So a header that is read by its texts means what a JSON parser would
say it means.
"""

from __future__ import annotations

from typing import Any, NamedTuple

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
_BORN_AT, _BORN_SIZE = b'","g":"', 13
_BEFORE_PROPERTIES, _AFTER_PROPERTIES = b'","h":"0","i":"', b'","j":"'
_OPAQUE = b'"opaque":'
_OPAQUE_DIGITS_MAX = 9
_ZERO = ord("0")
_NOT_IN_TEXT = bytes(range(32)) + b'"'
_HEAD_KEYS = frozenset("abcdef")
_CLOSED_KEYS = frozenset("abcdefghil")

PlainSend = tuple[str, int, int, int, int, bytes, int]
"""topic, queue id, sys_flag, birth time (ms), flag, encoded properties, opaque."""


class _Head(NamedTuple):
    topic: str
    queue_id: int
    sys_flag: int


class SendHeaderTexts:
    """The texts of send headers that were seen before."""

    def __init__(self) -> None:
        self._heads: dict[bytes, _Head] = {}
        self._middles: set[bytes] = set()
        self._tails: set[bytes] = set()

    def parse(self, text: bytes) -> PlainSend | None:
        """Return what a plain send's header says, None when it is not plain or not written like most."""
        # The three texts lie around birth time, properties and opaque. What is found too early or too late makes one of
        # them a text that no JSON parser completes: so a `find` that was misled by a value costs the fast path, no more.
        head_end = text.find(_BORN_AT)
        born_start = head_end + len(_BORN_AT)
        born_end = born_start + _BORN_SIZE
        start = born_end + len(_BEFORE_PROPERTIES)
        end = text.find(_AFTER_PROPERTIES, start)
        opaque_at = text.find(_OPAQUE, end) + len(_OPAQUE)
        if head_end < 0 or end < 0 or opaque_at < end or not text.startswith(_BEFORE_PROPERTIES, born_end):
            return None
        opaque_end = text.find(b",", opaque_at)
        head = self._heads.get(text[:head_end]) or self._learn_head(text[:head_end])
        middle, tail = text[end:opaque_at], text[opaque_end:]
        born_at, opaque = text[born_start:born_end], text[opaque_at:opaque_end]
        if (
            head is None
            or (middle not in self._middles and not self._learn_middle(middle))
            or (tail not in self._tails and not self._learn_tail(tail))
            or not born_at.isdigit()
            or not opaque.isdigit()
            or len(opaque) > _OPAQUE_DIGITS_MAX
            or (opaque[0] == _ZERO and len(opaque) > 1)  # JSON knows no number 007: the slow path refuses it
        ):
            return None
        raw = text[start:end]
        # Quotes and control characters would end the value or make the document no JSON; other text than ASCII may be
        # broken UTF-8. Of JSON's escapes only the two separators of properties are read here.
        if not raw.isascii() or len(raw.translate(None, _NOT_IN_TEXT)) != len(raw):
            return None
        properties = raw.replace(b"\\u0001", b"\x01").replace(b"\\u0002", b"\x02")
        if b"\\" in properties:
            return None
        return head[0], head[1], head[2], int(born_at), 0, properties, int(opaque)

    def _learn_head(self, text: bytes) -> _Head | None:
        # `keys() ==`: a key that stands twice, here or in another text, would mean something else to a JSON parser,
        # which takes the last one. So each text may hold only keys that no other text may hold.
        try:
            document = orjson.loads(text + b'"}}')
            fields = document["extFields"]
            if document.keys() != {"code", "extFields"} or document["code"] != _CODE:
                return None
            if fields.keys() != _HEAD_KEYS or not _is_count(fields["d"]):
                return None
            head = _Head(fields["b"], int(fields["e"]), int(fields["f"]))
        except (ValueError, KeyError, TypeError, AttributeError):
            return None
        if not all(type(value) is str for value in fields.values()) or not _is_plain(head.sys_flag):
            return None
        if head.queue_id not in _INT32:
            return None
        if len(text) <= TEXT_SIZE_MAX:
            if len(self._heads) >= TEXTS_MAX:
                self._heads.clear()
            self._heads[text] = head
        return head

    def _learn_middle(self, text: bytes) -> bool:
        try:
            document = orjson.loads(b'{"extFields":{"":"' + text + b"0}")
            fields = document["extFields"]
            is_plain = (
                fields.get("j") == "0"
                and fields.get("m", "false") == "false"
                and not fields.keys() & _CLOSED_KEYS
                and all(type(value) is str for value in fields.values())
                and document["flag"] == 0
                and type(document["flag"]) is int
                and document["opaque"] == 0
                and "code" not in document
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            return False
        return is_plain and _remember(self._middles, text)

    def _learn_tail(self, text: bytes) -> bool:
        try:
            document = orjson.loads(b'{"opaque":0' + text)
            is_plain = (
                not document.keys() & {"code", "extFields", "flag"}
                and document["opaque"] == 0
                and _is_number(document.get("version", 0))
            )
        except (ValueError, AttributeError):
            return False
        return is_plain and _remember(self._tails, text)


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


def _is_number(value: Any) -> bool:
    return type(value) is int and value in _INT32


def _is_count(text: str) -> bool:
    return text.isdecimal() and len(text) <= 9  # `isdigit` takes what `int` does not


def _is_plain(sys_flag: int) -> bool:
    """Return True if a flag has no bits that only the broker sets; that of a half message is looked at with its properties."""
    reserved = sys_flag & SysFlag.FOR_THE_BROKER
    return sys_flag in _INT32 and reserved in (0, SysFlag.TRANSACTION_PREPARED)


def _remember(texts: set[bytes], text: bytes) -> bool:
    if len(text) <= TEXT_SIZE_MAX:
        if len(texts) >= TEXTS_MAX:
            texts.clear()
        texts.add(text)
    return True
