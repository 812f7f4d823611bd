"""Makes bad input out of good input: bits flipped, bytes cut, doubled, swapped, lengths replaced by extreme ones."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

_EXTREMES = (
    b"\x00\x00\x00\x00",
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\x00\xff\xff\xff",
    b"\x7f\xff",
    b"\x80",
    b"\x01",
    b"\x02",
    b'"',
    b"{",
    b"}",
    b"[",
    b"\\u0000",
    b"\\ud800",
    b"1e999",
    b"-9223372036854775809",
    b"NaN",
    b"\xc3\x28",
)
_SIZE_MAX = 64 * 1024


def mutate(seed: bytes, others: Sequence[bytes], random: Random) -> bytes:
    """Return `seed` after a few random injuries; `others` lend pieces."""
    data = bytearray(seed)
    for _ in range(random.choice((1, 1, 1, 2, 3, 5, 9))):
        random.choice(_INJURIES)(data, others, random)
    return bytes(data[:_SIZE_MAX])


def _flip(data: bytearray, _others: Sequence[bytes], random: Random) -> None:
    if data:
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)


def _cut(data: bytearray, _others: Sequence[bytes], random: Random) -> None:
    del data[random.randint(0, len(data)) :]


def _remove(data: bytearray, _others: Sequence[bytes], random: Random) -> None:
    start = random.randint(0, len(data))
    del data[start : start + random.randint(1, 16)]


def _double(data: bytearray, _others: Sequence[bytes], random: Random) -> None:
    start = random.randint(0, len(data))
    piece = data[start : start + random.randint(1, 64)]
    data[start:start] = piece * random.choice((1, 2, 50))


def _replace(data: bytearray, _others: Sequence[bytes], random: Random) -> None:
    extreme = random.choice(_EXTREMES)
    start = random.randint(0, len(data))
    data[start : start + len(extreme)] = extreme


def _insert(data: bytearray, _others: Sequence[bytes], random: Random) -> None:
    data[(start := random.randint(0, len(data))) : start] = random.choice(_EXTREMES)


def _splice(data: bytearray, others: Sequence[bytes], random: Random) -> None:
    other = random.choice(others)
    data[random.randint(0, len(data)) :] = other[random.randint(0, len(other)) :]


def _digits(data: bytearray, _others: Sequence[bytes], random: Random) -> None:
    places = [place for place, byte in enumerate(data) if 48 <= byte <= 57]
    if places:
        data[random.choice(places)] = random.randrange(48, 58)


_INJURIES = (_flip, _flip, _cut, _remove, _double, _replace, _insert, _splice, _digits)
