"""Tag codes: the 8-byte number by which a consume queue filters tags. Pure."""

from __future__ import annotations

from functools import lru_cache
from struct import unpack


@lru_cache(maxsize=4096)
def tag_code(tag: str) -> int:
    """Return the code of `tag` that stands in a consume-queue entry, 0 for the empty tag.

    Source: Java String.hashCode (over UTF-16 units, wrapping at 32 bits, signed), as RocketMQ's brokers and
    consumers apply it to TAGS.
    """
    encoded = tag.encode("utf-16-be", "surrogatepass")
    code = 0
    for unit in unpack(f">{len(encoded) // 2}H", encoded):
        code = (code * 31 + unit) & 0xFFFFFFFF
    return code - 0x1_0000_0000 if code & 0x8000_0000 else code
