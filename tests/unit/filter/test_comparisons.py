"""Comparisons by the types of their operands, as Java compares."""

from __future__ import annotations

import operator

import pytest

from cases import each_case
from orbitmq.filter import compile_sql92
from orbitmq.filter.comparisons import between, equal, has_part, is_in, is_null, ordered
from orbitmq.filter.numbers import Incomparable
from orbitmq.filter.operands import (
    Kind,
    Operand,
    Refusal,
    decimal_literal,
    float_literal,
    literal,
    negate,
    read_property,
    text_literal,
)

A, B = read_property("a"), read_property("b")
TRUE, NULL = literal(Kind.BOOLEAN, True), literal(Kind.BOOLEAN, None)


def is_true(expression: str, **properties: str) -> bool | str | None:
    """Return true, false or None; "incomparable" where Java throws."""
    encoded = "".join(f"{name}\x01{value}\x02" for name, value in properties.items()).encode()
    try:
        return compile_sql92(expression).is_true(encoded)
    except Incomparable:
        return "incomparable"


@each_case(
    ("a > 5", "6", True),
    ("a > 5", "5", False),
    ("a >= 5", "5", True),
    ("a < 5", "4", True),
    ("a <= 5", "6", False),
    ("5 < a", "6", True),
    ("5 >= a", "6", False),
    ("a > 5", "5.5", "incomparable"),
    ("a > 5", "3000000000", "incomparable"),
    ("a > 3000000000", "3000000001", True),
    ("a > 5.0", "5.5", True),
    ("a > 5.0", "NaN", True),
    ("a < 5.0", "NaN", False),
    ("5.0 < a", "NaN", True),
    ("5.0 >= a", "NaN", False),
    ("a > -5", "-4", True),
    ("a = 5", "05", True),
    ("5 = a", "05", True),
    ("a = 5", "5.0", "incomparable"),
    ("a = 5.0", "5", True),
    ("a = -5", "-5", True),
    ("a = '5'", "05", False),
    ("a <> '5'", "05", True),
    ("a = TRUE", "tRuE", True),
    ("a = TRUE", "yes", False),
    ("a = FALSE", "yes", True),
    ("TRUE = a", "true", "incomparable"),
    ("a BETWEEN 5 AND 7", "7", True),
    ("a BETWEEN 5 AND 7", "8", False),
    ("a NOT BETWEEN 5 AND 7", "8", True),
    ("a NOT BETWEEN 7 AND 5", "6", True),
    ("a IN ('x', 'y')", "y", True),
    ("a NOT IN ('x', 'y')", "y", False),
    ("a CONTAINS 'b'", "abc", True),
    ("a NOT CONTAINS 'b'", "abc", False),
    ("a STARTSWITH 'ab'", "abc", True),
    ("a ENDSWITH 'bc'", "abc", True),
    ("a ENDSWITH 'ab'", "abc", False),
    ("a NOT STARTSWITH ''", "abc", False),
    ("a IS NULL", "x", False),
    ("a IS NOT NULL", "x", True),
)
def test_a_property_is_compared_by_the_type_next_to_it(expression: str, value: str, expected: object) -> None:
    assert is_true(expression, a=value) == expected


@each_case(
    ("a > 5", None),
    ("5 > a", None),
    ("a > b", None),
    ("a = 5", None),
    ("5 = a", False),
    ("a = b", True),
    ("a <> b", False),
    ("a IN ('x')", None),
    ("a NOT IN ('x')", None),
    ("a CONTAINS 'x'", False),
    ("a NOT CONTAINS 'x'", False),
    ("a IS NULL", True),
    ("a IS NOT NULL", False),
    ("a BETWEEN 1 AND 2", None),
    ("-a = 5", None),
    ("-(a = 5) IS NULL", True),
    ("-a > 5", None),
    ("5 > -a", None),
)
def test_what_is_absent_makes_comparisons_unknown_or_equals_what_is_absent(expression: str, expected: object) -> None:
    assert is_true(expression) is expected


@each_case(
    ("1 = 1.0", True), ("5 > 3", True), ("9007199254740993 = 9007199254740992.0", True), ("1 = TRUE", False),
    ("TRUE = FALSE", False), ("'5' = 5", True), ("5 = '5'", True), ("'x' = 5", "incomparable"), ("'x' = 'x'", True),
    ("(a IS NULL) = TRUE", True), ("(a IS NULL) = 5", False), ("5 IS NULL", False), ("5 CONTAINS '5'", False),
    ("'abc' CONTAINS 'b'", True), ("(a IS NULL) = 'true'", "incomparable"), ("5 < 3.5", False),
)  # fmt: skip
def test_constants_are_compared_as_java_promotes_them(expression: str, expected: object) -> None:
    assert is_true(expression) == expected


@each_case(
    ("2", "10", False),
    ("10", "2", True),
    ("NaN", "Infinity", True),
    ("0.0", "-0.0", True),
    ("x", "1", "incomparable"),
    ("1", "", None),
)
def test_two_properties_are_ordered_as_doubles(one: str, other: str, expected: object) -> None:
    assert is_true("a > b", a=one, b=other) == expected
    assert is_true("b < a", a=one, b=other) == expected


def test_two_properties_are_equal_as_texts() -> None:
    assert is_true("a = b", a="1", b="1") is True
    assert is_true("a = b", a="1", b="1.0") is False
    assert is_true("a = b", b="1") is None
    assert is_true("a = b", a="1") is False


def test_the_right_operand_is_not_looked_at_without_the_left_one() -> None:
    assert is_true("a > -(b = 5)", b="x") is None
    assert is_true("a > -(b = 5)", a="1", b="x") == "incomparable"
    assert is_true("(b = 5) CONTAINS ''", b="x") is False


@each_case(TRUE, NULL, text_literal("'x'"), equal(A, B))
def test_only_numbers_and_properties_have_an_order(other: Operand) -> None:
    for left, right in ((A, other), (other, A)):
        with pytest.raises(Refusal, match="only numbers and properties"):
            ordered(left, right, operator.gt)


def test_limits_that_both_are_literals_stand_in_order() -> None:
    five, seven, nine = decimal_literal("5"), float_literal("7.5"), decimal_literal("9")
    between(A, five, five)
    between(A, five, seven)
    between(A, nine, negate(five))  # to Java a negative number is not a literal
    for low, high in ((nine, five), (nine, seven)):
        with pytest.raises(Refusal, match="first must not be greater"):
            between(A, low, high)


def test_null_is_not_compared() -> None:
    for left, right in ((A, NULL), (NULL, A)):
        with pytest.raises(Refusal, match="IS NULL"):
            equal(left, right)


def test_truth_stands_before_no_other_literal() -> None:
    with pytest.raises(Refusal, match="TRUE and FALSE"):
        equal(TRUE, decimal_literal("1"))
    equal(decimal_literal("1"), TRUE)
    equal(TRUE, TRUE)
    equal(TRUE, A)
    equal(TRUE, negate(decimal_literal("1")))


def test_only_a_property_is_in_a_list() -> None:
    with pytest.raises(Refusal, match="only a property"):
        is_in(decimal_literal("5"), frozenset((b"5",)), inverted=False)


def test_a_comparison_costs_the_properties_that_it_reads() -> None:
    assert equal(A, B).cost == 2
    assert equal(A, decimal_literal("5")).cost == 1
    assert equal(decimal_literal("5"), decimal_literal("5")).cost == 1
    assert is_null(equal(A, B)).cost == 2
    assert has_part(A, b"x", operator.contains, inverted=False).depth == 2
