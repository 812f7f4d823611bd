"""Plain requests at the start of a read: of one code, whole, without a body, read by one JSON parse or a pattern. Pure.

Requests that are small and many, like a producer's decisions and a consumer's acks, cost more on their way to the handler
than in it: a frame, a command and a call for each. Here they are what the handler looks at, and no more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from orbitmq.wire.frame import HEADER_SIZE_MAX, PREFIX

_INT32_MIN, _INT32_MAX = -(2**31), 2**31 - 1
_unpack_prefix = PREFIX.unpack_from

WORD = r"[ !#-\[\]-~]*+"
"""Text that is itself in JSON: no quotes, backslashes or control characters, and nothing but ASCII."""
_OPAQUE = r"0|[1-9]\d{0,8}"
_PATTERNS_MAX = 4
_TRIES_MAX = 64

PlainRequest = tuple[Mapping[str, str], int, int]
"""The fields of its typed header, its opaque, and where its frame ends in the read."""


PatternRead = tuple[tuple[bytes, ...], int, int]
"""The values that were asked for, in their order, the opaque, and where the frame ends in the read."""


def plain_requests(data: bytes, code: int, at: int = 0) -> Iterator[PlainRequest]:
    """Yield the requests of a code from `at` on, up to the first that is anything else or has to be looked at."""
    end = len(data)
    while end - at > 8:  # PREFIX.size, and 4 that of the length, written out
        size, mark = _unpack_prefix(data, at)
        text_start = at + 8
        at += 4 + size
        # A frame that the read cut off, a body, or a header that is too long or binary (mark >> 24): left to the slow path.
        if at > end or at != text_start + mark or mark > HEADER_SIZE_MAX:
            return
        try:
            header = orjson.loads(data[text_start:at])
            fields, opaque, version = header["extFields"], header["opaque"], header.get("version", 0)
            "".join(fields.values())  # one pass in C that fails on whatever is not text
            # The exact types, because JSON's `true` is an int to Python.
            if not (
                header["code"] == code
                and type(header["code"]) is type(header["flag"]) is type(opaque) is type(version) is int
                and header["flag"] == 0
                and _INT32_MIN <= opaque <= _INT32_MAX
            ):
                return
        except (ValueError, KeyError, AttributeError, TypeError):
            return
        yield fields, opaque, at


class Patterns:
    """Reads requests of one code by the way their clients write them: the first patterns that are seen are kept.

    A client writes the same document again and again, with other values. Its pattern is made of a request that was parsed, if
    what JSON's writer makes of it is the same text: so nothing stands in it twice, and what matches means to a JSON parser
    what it means here.

    Args:
        code: that of the requests.
        read: the fields whose values are returned, and the regular expressions of values that are plain.
        checked: other fields that have to have such values; the rest may have any `WORD`.
    """

    def __init__(self, code: int, read: Mapping[str, str], checked: Mapping[str, str]) -> None:
        self._code = code
        self._read = read
        self._checked = checked
        self._patterns: list[tuple[re.Pattern[bytes], tuple[int, ...]]] = []
        self._tries = 0

    def read(self, data: bytes, at: int) -> PatternRead | None:
        """Return the request that begins at a place of a read, None where it has to be parsed."""
        if len(data) - at < PREFIX.size:
            return None
        size, mark = _unpack_prefix(data, at)
        frame_end = at + 4 + size
        # A frame that the read cut off, a body, or a header that is too long or binary, as above.
        if frame_end > len(data) or size != mark + 4 or mark > HEADER_SIZE_MAX:
            return None
        for pattern, groups in self._patterns:
            found = pattern.fullmatch(data, at + 8, frame_end)
            if found is not None:
                *values, opaque = found.group(*groups)
                return tuple(values), int(opaque), frame_end
        return None

    def learn(self, data: bytes, at: int, frame_end: int) -> None:
        """Learn the pattern of a plain request."""
        if self._tries >= _TRIES_MAX or len(self._patterns) >= _PATTERNS_MAX or self.read(data, at) is not None:
            return
        self._tries += 1  # a client that writes each request in another way must not get all of them parsed twice
        text = data[at + 8 : frame_end]
        document = orjson.loads(text)
        if orjson.dumps(document) != text or not self._read.keys() <= document["extFields"].keys():
            return
        pattern = re.compile(self._pattern_of(document))
        groups = tuple(pattern.groupindex[name] for name in (*self._read, "opaque"))
        self._patterns.append((pattern, groups))

    def _pattern_of(self, document: Mapping[str, Any]) -> bytes:
        fields = ",".join(f"{_literal(name)}:{self._value_of(name)}" for name in document["extFields"])
        known = {"extFields": rf"\{{{fields}\}}", "opaque": rf"(?P<opaque>{_OPAQUE})"}
        members = (f"{_literal(name)}:{known.get(name) or _literal(value)}" for name, value in document.items())
        return rf"\{{{','.join(members)}\}}".encode()

    def _value_of(self, name: str) -> str:
        if name in self._read:
            return f'"(?P<{name}>{self._read[name]})"'
        return f'"(?:{self._checked.get(name, WORD)})"'


def _literal(value: object) -> str:
    """Return the regular expression of a value as JSON's writer writes it."""
    return re.escape(orjson.dumps(value).decode())
