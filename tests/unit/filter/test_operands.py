"""Parts of an expression: properties, literals and their limits."""

from __future__ import annotations

import pytest

from cases import each_case
from orbitmq.filter.operands import (
    DEPTH_MAX,
    Kind,
    Operand,
    Refusal,
    decimal_literal,
    deeper,
    float_literal,
    literal,
    negate,
    read_property,
    text_literal,
)


@each_case(
    (b"a\x01x\x02", b"x"),
    (b"a\x01x", b"x"),
    (b"b\x01y\x02a\x01x\x02c\x01z\x02", b"x"),
    (b"b\x01y\x02a\x01x", b"x"),
    (b"aa\x01y\x02ba\x01z\x02", None),
    (b"b\x01a\x02", None),
    (b"b\x01a\x01x\x02", None),
    (b"", None),
    (b"a\x01\x02", None),
    (b"a\x01one\x02a\x01two\x02", b"two"),
    (b"a\x01one\x02a\x01\x02", b"one"),
    (b"a\x01one\x02b\x011\x02a\x01", b"one"),
    (b"a\x01x\x01y\x02", b"x\x01y"),
    (b"a\x01one\x02a\x01\n\x02a\x01\x02", b"\n"),
    (b"ba\x01one\x02a\x01\x02a\x01\x02", None),
    (b"b\x01\x02a\x01x\x02" + b"a\x01\x02" * 10_000, b"x"),
)
def test_a_property_is_the_last_value_that_is_not_empty(properties: bytes, value: bytes | None) -> None:
    assert read_property("a").evaluate(properties) == value


@each_case(
    ("0", Kind.INTEGER, 0),
    ("2147483647", Kind.INTEGER, 2**31 - 1),
    ("2147483648", Kind.LONG, 2**31),
    ("5L", Kind.INTEGER, 5),
    ("9223372036854775807l", Kind.LONG, 2**63 - 1),
)
def test_a_whole_number_is_an_integer_if_it_fits_or_else_a_long(token: str, kind: Kind, value: int) -> None:
    operand = decimal_literal(token)
    assert (operand.kind, operand.constant, operand.evaluate(b""), operand.is_literal) == (kind, value, value, True)


@each_case("9223372036854775808", "9" * 5_000, "9" * 5_000 + "L")
def test_a_larger_one_is_refused(token: str) -> None:
    with pytest.raises(Refusal, match="9223372036854775807"):
        decimal_literal(token)


def test_a_number_with_a_point_is_a_double_above_zero() -> None:
    assert float_literal("1.5e3").constant == 1500.0
    assert float_literal("4.9E-324").kind is Kind.DOUBLE
    for token in ("0.0", "1e999", "1e-999"):
        with pytest.raises(Refusal, match=r"4\.9E-324"):
            float_literal(token)


def test_two_quotes_inside_a_text_are_one() -> None:
    assert text_literal("'it''s'").constant == b"it's"
    assert text_literal("''").constant == b""
    assert text_literal("'\ud800'").constant not in (b"", b"?")


def test_the_negative_of_a_number_is_one_but_no_literal() -> None:
    operand = negate(decimal_literal("5"))
    assert (operand.kind, operand.constant, operand.evaluate(b""), operand.is_literal) == (Kind.INTEGER, -5, -5, False)
    assert negate(operand).constant == 5


def test_the_negative_of_anything_else_is_unknown_but_looked_at() -> None:
    seen: list[bytes] = []
    operand = negate(Operand(Kind.PROPERTY, lambda properties: seen.append(properties)))
    assert operand.kind is Kind.UNKNOWN
    assert operand.evaluate(b"x") is None
    assert seen == [b"x"]
    assert negate(literal(Kind.TEXT, b"5")).evaluate(b"") is None


def test_depth_has_an_end() -> None:
    operand = read_property("a")
    for depth in range(2, DEPTH_MAX + 1):
        operand = negate(operand)
        assert operand.depth == depth
    with pytest.raises(Refusal, match=f"deeper than {DEPTH_MAX}"):
        deeper(read_property("b"), operand)
