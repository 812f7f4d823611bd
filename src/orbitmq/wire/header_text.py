"""The text of a JSON header around its opaque: the part that requests share when they repeat one another. Pure.

Peers write the same header again and again, with another number behind `"opaque":`. A server that keeps the text around
the number need not parse it again: the same text means the same request. Answers that are kept are cut in the same way.
"""

from __future__ import annotations

from typing import NamedTuple

from orbitmq.errors import FrameError
from orbitmq.wire.command import Command, decode_command
from orbitmq.wire.frame import PREFIX, Frame

OPAQUE = b'"opaque":'
OPAQUE_SIZE = len(OPAQUE)
OPAQUE_DIGITS_MAX = 9
"""Digits of an opaque that is taken from its text; longer ones may not fit the wire's 32 bits."""
TEXT_SIZE_MAX = 1_024
"""Bytes of a header that is worth keeping: honest ones have 150 to 700, and strangers choose how many are kept."""
PROBE = 987_654_321
"""An opaque that has as many digits."""


class CutAnswer(NamedTuple):
    """An encoded answer without its opaque: the bytes before it, by its number of digits, and the bytes behind it."""

    prefixes: tuple[bytes, ...]
    rest: bytes


def is_plain_opaque(digits: bytes) -> bool:
    """Tell whether a JSON number is a natural number that stands for an opaque as it is written."""
    return digits.isdigit() and len(digits) <= OPAQUE_DIGITS_MAX and (digits[0] != 48 or len(digits) == 1)


def split_header(frame: Frame, command: Command) -> tuple[bytes, bytes] | None:
    """Return the header's text before and after the opaque; None when it cannot be remembered.

    It can if the digits behind `"opaque":` are the opaque and nothing else: the header is parsed a second time with
    other digits in their place, and must differ in the opaque alone.
    """
    header = frame.header
    if frame.serialize_type or command.is_oneway or len(header) > TEXT_SIZE_MAX or header.count(OPAQUE) != 1:
        return None
    before, _, rest = header.partition(OPAQUE)
    digits, comma, after = rest.partition(b",")
    if not comma or digits != b"%d" % command.opaque:
        return None
    probe = b"%b%b%d,%b" % (before, OPAQUE, PROBE, after)
    try:
        probed = decode_command(Frame(0, probe, frame.body))
    except FrameError:
        return None
    return (before, comma + after) if probed == command._replace(opaque=PROBE) else None


def cut_answer(frame: bytes, body_size: int = 0) -> CutAnswer:
    """Cut a JSON answer whose opaque is `PROBE`, without its body of so many bytes, where the opaque stands."""
    digits = b"%d" % PROBE
    position = frame.index(digits, frame.index(OPAQUE))
    size, mark = PREFIX.unpack_from(frame)
    shorter = [OPAQUE_DIGITS_MAX - count for count in range(OPAQUE_DIGITS_MAX + 1)]
    prefixes = tuple(PREFIX.pack(size - less, mark - less) + frame[PREFIX.size : position] for less in shorter)
    return CutAnswer(prefixes, frame[position + len(digits) : len(frame) - body_size])
