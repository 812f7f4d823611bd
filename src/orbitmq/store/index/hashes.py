"""The hash that an index entry keeps of its key: Java's `String.hashCode` of `topic#key`, without its sign. Pure.

A string's hash is a polynomial in 31 of its UTF-16 units. Hundreds of keys are hashed at once: their bytes are the lanes
of one large integer, and each multiplication joins all lanes in pairs. Source: Java IndexFile.indexKeyHashMethod.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

HASH_MASK = 0xFFFFFFFF
KEYS_AT_ONCE = 1024
"""So many keys are hashed in one go at most."""
_WIDTHS = (16, 32, 64)
"""Bytes that a key may take among others; longer ones are hashed one by one."""
_SIGN = 0x80000000
_POWERS = [pow(31, exponent, 1 << 32) for exponent in range(_WIDTHS[-1] + 1)]


def java_hash(text: str) -> int:
    """Return the 32 bits of Java's `String.hashCode`."""
    if text.isascii():
        units: Sequence[int] = text.encode()
    else:
        units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("B").cast("H")
    total = 0
    for unit in units:
        total = (total * 31 + unit) & HASH_MASK
    return total


def topic_hash(topic: str) -> int:
    """Return the hash of what stands before each key of a topic; `hash_keys` goes on from there."""
    return java_hash(f"{topic}#")


def key_hash(topic: str, key: str) -> int:
    """Return what the index keeps of a key: 0 to 2**31 - 1."""
    return _without_sign(java_hash(f"{topic}#{key}"))


def hash_keys(keys: Sequence[bytes], starts: Sequence[int]) -> list[int]:
    """Return what the index keeps of many keys.

    Args:
        keys: in UTF-8, `KEYS_AT_ONCE` at most.
        starts: of each key, the `topic_hash` of its topic.
    """
    longest = max(map(len, keys), default=0)
    width = next((width for width in _WIDTHS if longest <= width), 0)
    if width:
        # Zeros before a key add nothing to its polynomial.
        joined = b"".join([key.rjust(width, b"\0") for key in keys])
        if joined.isascii():
            return [
                found if found < _SIGN else -found & 0x7FFFFFFF
                for key, start, tail in zip(keys, starts, _join_lanes(joined, width), strict=True)
                for found in ((start * _POWERS[len(key)] + tail) & HASH_MASK,)
            ]
    return [_hash_one(key, start) for key, start in zip(keys, starts, strict=True)]


def _join_lanes(joined: bytes, width: int) -> list[int]:
    """Return the hashes of all keys, each of `width` bytes: lanes of one byte become lanes of a key, pair by pair."""
    size = len(joined)
    value = int.from_bytes(joined, "little")
    bits, factor = 8, 31
    while bits < width * 8:
        mask = _mask(bits) >> 8 * (_SIZE_MAX - size)
        value = (value & mask) * factor + (value >> bits & mask)
        bits *= 2
        factor = factor * factor & HASH_MASK
    words = memoryview(value.to_bytes(size, "little")).cast("I")
    return words[:: width // 4].tolist()


_SIZE_MAX = KEYS_AT_ONCE * _WIDTHS[-1]


@lru_cache(maxsize=8)
def _mask(bits: int) -> int:
    """Return ones in every second lane of this many bits, the first one included."""
    lanes = (b"\xff" * (bits // 8)).ljust(bits // 4, b"\0")
    return int.from_bytes(lanes * (_SIZE_MAX // len(lanes)), "little")


def _hash_one(key: bytes, start: int) -> int:
    text = key.decode("utf-8", "replace")
    units = len(text.encode("utf-16-le", "surrogatepass")) // 2
    return _without_sign((start * pow(31, units, 1 << 32) + java_hash(text)) & HASH_MASK)


def _without_sign(found: int) -> int:
    # Java's Math.abs; it has no answer for the smallest number, which becomes 0.
    return found if found < _SIGN else -found & 0x7FFFFFFF
