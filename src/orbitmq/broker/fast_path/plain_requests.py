"""Plain requests at the start of a read: of one code, whole, without a body, read by one JSON parse each. Pure.

Requests that are small and many, like a producer's decisions and a consumer's acks, cost more on their way to the handler
than in it: a frame, a command and a call for each. Here they are what the handler looks at, and no more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import orjson

from orbitmq.wire.frame import HEADER_SIZE_MAX, PREFIX

_INT32_MIN, _INT32_MAX = -(2**31), 2**31 - 1
_unpack_prefix = PREFIX.unpack_from

PlainRequest = tuple[Mapping[str, str], int, int]
"""The fields of its typed header, its opaque, and where its frame ends in the read."""


def plain_requests(data: bytes, code: int) -> Iterator[PlainRequest]:
    """Yield the requests of a code at the start of `data`, up to the first that is anything else or has to be looked at."""
    at, end = 0, len(data)
    while end - at > 8:  # PREFIX.size, and 4 that of the length, written out
        size, mark = _unpack_prefix(data, at)
        text_start = at + 8
        at += 4 + size
        # A frame that the read cut off, a body, or a header that is too long or binary (mark >> 24): the long way's business.
        if at > end or at != text_start + mark or mark > HEADER_SIZE_MAX:
            return
        try:
            header = orjson.loads(data[text_start:at])
            fields, opaque, version = header["extFields"], header["opaque"], header.get("version", 0)
            "".join(fields.values())  # one pass in C that fails on whatever is no text
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
