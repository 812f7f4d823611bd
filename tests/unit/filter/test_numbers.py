"""Numbers as Java reads them."""

from __future__ import annotations

from math import copysign, inf, isnan

import pytest

from cases import each_case
from orbitmq.filter.numbers import Incomparable, order_key, parse_double, parse_integer, parse_long


@each_case(
    ("0", 0),
    ("05", 5),
    ("+5", 5),
    ("-5", -5),
    ("2147483647", 2**31 - 1),
    ("-2147483648", -(2**31)),
    ("0" * 30_000 + "7", 7),
    ("٣", 3),
    ("-５", -5),
)
def test_an_integer_is_digits_of_any_script_and_one_sign(text: str, number: int) -> None:
    assert parse_integer(text.encode()) == number


@each_case(
    "2147483648", "-2147483649", "", " 5", "5 ", "5.0", "1e1", "5L", "1_0", "0x5", "+-5", "-", "+", "five",
    "\U0001d7d3", "1" * 40,
)  # fmt: skip
def test_anything_else_is_no_integer(text: str) -> None:
    with pytest.raises(Incomparable):
        parse_integer(text.encode())


def test_a_long_has_64_bits() -> None:
    assert parse_long(b"9223372036854775807") == 2**63 - 1
    assert parse_long(b"-9223372036854775808") == -(2**63)
    for text in (b"9223372036854775808", b"-9223372036854775809", b"5L"):
        with pytest.raises(Incomparable):
            parse_long(text)


@each_case(
    ("5", 5.0),
    (" 5.5\t", 5.5),
    ("5.", 5.0),
    (".5", 0.5),
    ("1e3", 1000.0),
    ("1E-2f", 0.01),
    ("+2.0D", 2.0),
    ("0x1p3", 8.0),
    ("-0x.8P1d", -1.0),
    ("0x1.8p0", 1.5),
    ("1e999", inf),
    ("-1e999", -inf),
    ("0x1p99999", inf),
    ("-0x1p99999", -inf),
    ("0x1p-99999", 0.0),
    ("Infinity", inf),
    ("-Infinity", -inf),
)
def test_a_double_is_what_javas_double_reads(text: str, number: float) -> None:
    assert parse_double(text.encode()) == number


@each_case("NaN", "-NaN", "+NaN")
def test_a_double_may_be_none_at_all(text: str) -> None:
    assert isnan(parse_double(text.encode()))


@each_case("", " ", "nan", "inf", "infinity", "1_0", "1e", "e5", ".", "5L", "0x5", "٣", "5\u00a0", "--5")
def test_anything_else_is_no_double(text: str) -> None:
    with pytest.raises(Incomparable):
        parse_double(text.encode())


def test_doubles_are_ordered_as_java_orders_them() -> None:
    ordered = [-inf, -1.0, -0.0, 0.0, 1.0, inf, float("nan")]
    keys = [order_key(number) for number in ordered]
    assert keys == sorted(keys)
    assert len(set(keys)) == len(keys)
    assert order_key(float("nan")) == order_key(copysign(float("nan"), -1.0))
