"""Numbers in property values, as Java's Integer, Long and Double read them. Pure.

Whatever a type does not read makes the comparison impossible: the message does not match.

Source: Java Integer.valueOf, Long.valueOf, Double.valueOf.
"""

from __future__ import annotations

import re
from math import copysign, inf, isnan, nan

INTEGER_MIN, INTEGER_MAX = -(2**31), 2**31 - 1
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1

_PLAIN_DIGITS_MAX = 18
"""So many digits always fit a long."""
_WHOLE = re.compile(r"([+-]?)(\d+)")
_LONG_DIGITS_MAX = 19
_BMP_END = "\U00010000"
"""Java looks at digits one UTF-16 unit at a time, so those beyond are none."""
_TRIMMED = bytes(range(0x21))
"""What Java's String.trim takes off both ends."""
_DECIMAL = re.compile(rb"([+-]?(?:[0-9]++\.?[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?)[fFdD]?")
_HEXADECIMAL = re.compile(
    rb"([+-]?0[xX](?:[0-9a-fA-F]++\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP]([+-]?)[0-9]++)[fFdD]?", re.ASCII
)
_NAMED = re.compile(rb"([+-]?)(NaN|Infinity)")


class Incomparable(Exception):
    """Two values that Java fails to compare: the message does not match, whatever the rest of the expression says."""


def parse_integer(value: bytes) -> int:
    """Return the number that Java's Integer reads. Raises Incomparable."""
    return _parse_whole(value, INTEGER_MIN, INTEGER_MAX)


def parse_long(value: bytes) -> int:
    """Return the number that Java's Long reads. Raises Incomparable."""
    return _parse_whole(value, LONG_MIN, LONG_MAX)


def parse_double(value: bytes) -> float:
    """Return the number that Java's Double reads. Raises Incomparable."""
    text = value.strip(_TRIMMED)
    if found := _DECIMAL.fullmatch(text):
        return float(found[1])
    if found := _NAMED.fullmatch(text):
        return nan if found[2] == b"NaN" else copysign(inf, -1.0 if found[1] == b"-" else 1.0)
    if found := _HEXADECIMAL.fullmatch(text):
        return _parse_hexadecimal(found[1].decode())
    raise Incomparable


def order_key(number: float) -> tuple[bool, float, float]:
    """Return what Double.compareTo orders by: NaN is the greatest and equal to itself, -0.0 comes before 0.0."""
    if isnan(number):
        return True, 0.0, 0.0
    return False, number, copysign(1.0, number)


def _parse_whole(value: bytes, low: int, high: int) -> int:
    if len(value) <= _PLAIN_DIGITS_MAX and value.isdigit():
        number = int(value)
    else:
        number = _parse_signed(value.decode(errors="replace"))
    if not low <= number <= high:
        raise Incomparable
    return number


def _parse_signed(text: str) -> int:
    """Read a sign and digits of any script, as Character.digit knows them."""
    found = _WHOLE.fullmatch(text)
    if found is None or max(text) >= _BMP_END:
        raise Incomparable
    digits = "".join(str(int(digit)) for digit in found[2]).lstrip("0")
    if len(digits) > _LONG_DIGITS_MAX:
        raise Incomparable
    return int(found[1] + (digits or "0"))


def _parse_hexadecimal(text: str) -> float:
    try:
        return float.fromhex(text)
    except OverflowError:
        return copysign(inf, -1.0 if text.startswith("-") else 1.0)
