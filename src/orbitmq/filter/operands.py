"""The parts of a compiled expression, and what Java lets each of them be used for. Pure.

Every part has a kind that is known before any message comes. A property is text or absent; numbers only stand in the
expression itself; a comparison is true, false or unknown (None).

Source: Java ConstantExpression, PropertyExpression, BooleanConstantExpression.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

from orbitmq.filter.numbers import INTEGER_MAX, LONG_MAX
from orbitmq.filter.prefilter import Prefilter

Value = bytes | int | float | None
Evaluate = Callable[[bytes], Value]
"""From a message's encoded properties to a value; raises Incomparable."""
Truth = Callable[[bytes], bool | None]
"""The same for comparisons: true, false, or None for unknown."""
Matches = Callable[[bytes], bool]
"""The question that a broker asks: only what is true matches."""

DEPTH_MAX = 100
"""Operands inside operands; each costs a call inside a call."""


class Refusal(Exception):
    """The expression is not allowed; the message says why."""


class Kind(Enum):
    """What a part of an expression gives (Java: the class of its value)."""

    PROPERTY = auto()
    TEXT = auto()
    INTEGER = auto()
    LONG = auto()
    DOUBLE = auto()
    BOOLEAN = auto()
    UNKNOWN = auto()
    """Never a value: the negative of what is not a number."""


NUMBERS = frozenset({Kind.INTEGER, Kind.LONG, Kind.DOUBLE})
TEXTS = frozenset({Kind.PROPERTY, Kind.TEXT})


@dataclass(frozen=True, slots=True)
class Operand:
    """One part of an expression.

    Args:
        evaluate: its value for a message.
        constant: the value of a number or of a literal.
        is_literal: it stands in the expression as it is; a negative number does not, to Java's rules.
        depth: operands inside operands, itself included.
        cost: how often properties are looked at.
        name: the property's.
        matches: whether it is true for a message, where that can be told with fewer steps; None: `evaluate` tells it.
        prefilter: finds those for which it may be true among many messages; None: nothing is known of them.
    """

    kind: Kind
    evaluate: Evaluate
    constant: Value = None
    is_literal: bool = False
    depth: int = 1
    cost: int = 1
    name: str = ""
    matches: Matches | None = None
    prefilter: Prefilter | None = None


def read_property(name: str) -> Operand:
    """Return the operand that is a property's value."""
    first = name.encode() + b"\x01"
    marked = b"\x02" + first
    first_size, marked_size = len(first), len(marked)
    last_with_value = re.compile(rb"(?:.*\x02)?" + re.escape(first) + rb"([^\x02]+)", re.DOTALL).match

    def evaluate(properties: bytes) -> bytes | None:
        at = properties.rfind(marked)
        if at >= 0:
            at += marked_size
        elif properties.startswith(first):
            at = first_size
        else:
            return None
        end = properties.find(b"\x02", at)
        value = properties[at:end] if end >= 0 else properties[at:]
        if value:
            return value
        # Java reads no empty values: the one before counts. Found in one go, however many there are.
        found = last_with_value(properties)
        return None if found is None else found[1]

    return Operand(Kind.PROPERTY, evaluate, name=name)


def literal(kind: Kind, value: Value) -> Operand:
    """Return the operand that is the same for every message."""
    return Operand(kind, lambda properties: value, value, is_literal=True, cost=0)


def text_literal(token: str) -> Operand:
    """Return the text between quotes; two quotes inside stand for one."""
    return literal(Kind.TEXT, text_of(token))


def text_of(token: str) -> bytes:
    """Return the text of a string token."""
    # A lone surrogate is not text; it can stand in an expression and equals no property.
    return token[1:-1].replace("''", "'").encode(errors="surrogatepass")


def decimal_literal(token: str) -> Operand:
    """Return a whole number: an Integer when it fits, which decides how texts next to it are read, or else a Long.

    Raises:
        Refusal: it does not fit a Long.
    """
    number = int(token.rstrip("lL")) if len(token) <= len(str(LONG_MAX)) + 1 else LONG_MAX + 1
    if number > LONG_MAX:
        raise Refusal(f"a whole number may not be greater than {LONG_MAX}")
    return literal(Kind.INTEGER if number <= INTEGER_MAX else Kind.LONG, number)


def float_literal(token: str) -> Operand:
    """Return a Double. Java refuses 0.0, too.

    Raises:
        Refusal: it is too large or too small.
    """
    number = float(token)
    if not 0 < number < float("inf"):
        raise Refusal("a number with a point or an exponent must be between 4.9E-324 and 1.7976931348623157E308")
    return literal(Kind.DOUBLE, number)


def negate(operand: Operand) -> Operand:
    """Return the negative of a number; of anything else there is none, but it is looked at."""
    if operand.kind in NUMBERS:
        assert operand.constant is not None
        assert not isinstance(operand.constant, bytes)
        value = -operand.constant
        return Operand(operand.kind, lambda properties: value, value, cost=0)
    evaluate = operand.evaluate

    def unknown(properties: bytes) -> None:
        evaluate(properties)

    return Operand(Kind.UNKNOWN, unknown, depth=deeper(operand), cost=operand.cost)


def deeper(*operands: Operand) -> int:
    """Return the depth of what holds these operands.

    Raises:
        Refusal: it is too deep.
    """
    depth = 1 + max(operand.depth for operand in operands)
    if depth > DEPTH_MAX:
        raise Refusal(f"the expression is nested deeper than {DEPTH_MAX}")
    return depth
