"""The hash that an index entry keeps of its key: Java's `String.hashCode` of `topic#key`, without its sign. Pure.

A string's hash is a polynomial in 31 of its UTF-16 units. Hundreds of keys are hashed in one pass: their bytes are the lanes
of one large integer, and each multiplication joins all lanes in pairs. Source: Java IndexFile.indexKeyHashMethod.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache

HASH_MASK = 0xFFFFFFFF
_BLOCK = 256
"""So many keys are hashed in one go: an integer of a few kilobytes stays in the fastest cache."""
_WIDTHS = (16, 32, 64)
"""Bytes that a key may take among others; longer ones are hashed one by one."""
_SIGN = 0x80000000
_POWERS = [pow(31, exponent, 1 << 32) for exponent in range(_WIDTHS[-1] + 1)]


def java_hash(text: str, before: int = 0) -> int:
    """Return the 32 bits of Java's `String.hashCode`.

    Args:
        before: the hash of what stands before the text.
    """
    if text.isascii():
        units: Sequence[int] = text.encode()
    else:
        units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("B").cast("H")
    total = before
    for unit in units:
        total = (total * 31 + unit) & HASH_MASK
    return total


@lru_cache(maxsize=4096)
def topic_hash(topic: str) -> int:
    """Return the hash of what stands before each key of a topic; `hash_keys` goes on from there."""
    return java_hash(f"{topic}#")


def key_hash(topic: str, key: str) -> int:
    """Return what the index keeps of a key: 0 to 2**31 - 1."""
    return _without_sign(java_hash(key, topic_hash(topic)))


def hash_keys(keys: Sequence[bytes], starts: Sequence[int]) -> list[int]:
    """Return what the index keeps of many keys.

    Args:
        keys: in UTF-8.
        starts: of each key, the `topic_hash` of its topic.
    """
    found: list[int] = []
    for at in range(0, len(keys), _BLOCK):
        found += _hash_block(keys[at : at + _BLOCK], starts[at : at + _BLOCK])
    return found


def _hash_block(keys: Sequence[bytes], starts: Sequence[int]) -> list[int]:
    sizes = list(map(len, keys))
    longest = max(sizes)
    width = next((width for width in _WIDTHS if longest <= width), 0)
    if width:
        # Zeros before a key add nothing to its polynomial.
        joined = b"".join(keys if min(sizes) == width else [key.rjust(width, b"\0") for key in keys])
        if joined.isascii():
            tails = _join_lanes(joined, width)
            if min(sizes) == longest and starts.count(starts[0]) == len(starts):
                # As clients' own keys of one topic are: what stands before them adds the same to all of them.
                before = starts[0] * _POWERS[longest] & HASH_MASK
                return [
                    found if (found := before + tail & HASH_MASK) < _SIGN else -found & 0x7FFFFFFF for tail in tails
                ]
            powers = map(_POWERS.__getitem__, sizes)
            return [
                found if (found := start * power + tail & HASH_MASK) < _SIGN else -found & 0x7FFFFFFF
                for start, power, tail in zip(starts, powers, tails, strict=True)
            ]
    return [_hash_one(key, start) for key, start in zip(keys, starts, strict=True)]


def _join_lanes(joined: bytes, width: int) -> list[int]:
    """Return the hashes of all keys, each of `width` bytes: lanes of one byte become lanes of a key, pair by pair."""
    size = len(joined)
    value = int.from_bytes(joined, "little")
    for bits, factor, mask in _rounds(width):
        value = (value & mask) * factor + (value >> bits & mask)
    words = memoryview(value.to_bytes(size, "little")).cast("I")
    return words[:: width // 4].tolist()


@cache
def _rounds(width: int) -> list[tuple[int, int, int]]:
    """Return for each joining the lanes' bits, the power of 31 between them, and ones in every second lane."""
    rounds, bits, factor = [], 8, 31
    while bits < width * 8:
        lanes = (b"\xff" * (bits // 8)).ljust(bits // 4, b"\0")
        rounds.append((bits, factor, int.from_bytes(lanes * (_BLOCK * width // len(lanes)), "little")))
        bits, factor = bits * 2, factor * factor & HASH_MASK
    return rounds


def _hash_one(key: bytes, start: int) -> int:
    text = key.decode("utf-8", "replace")
    units = len(text.encode("utf-16-le", "surrogatepass")) // 2
    return _without_sign((start * pow(31, units, 1 << 32) + java_hash(text)) & HASH_MASK)


def _without_sign(found: int) -> int:
    # Java's Math.abs; it has no answer for the smallest number, which becomes 0.
    return found if found < _SIGN else -found & 0x7FFFFFFF
