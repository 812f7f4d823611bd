"""Three truth values."""

from __future__ import annotations

import pytest

from orbitmq.filter.logic import both, either, invert, truth
from orbitmq.filter.numbers import Incomparable
from orbitmq.filter.operands import DEPTH_MAX, Kind, Operand, Refusal, literal, read_property, text_literal

T, F, N = (literal(Kind.BOOLEAN, value) for value in (True, False, None))


def _fail(properties: bytes) -> bool:
    raise Incomparable


FAILS = Operand(Kind.BOOLEAN, _fail)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ((T, T), True), ((T, F), False), ((F, T), False), ((T, N), None), ((N, T), None), ((N, F), False), ((F, N), False),
        ((N, N), None), ((T, N, F), False), ((T, T, N), None), ((F, FAILS), False), ((T, T, T), True),
    ],
)  # fmt: skip
def test_and_is_false_if_any_is_and_else_unknown_if_any_is(parts: tuple[Operand, ...], expected: bool | None) -> None:
    assert both(parts).evaluate(b"") is expected


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ((T, F), True), ((F, T), True), ((F, F), False), ((N, T), True), ((T, N), True), ((N, F), None), ((F, N), None),
        ((N, N), None), ((F, N, T), True), ((F, F, N), None), ((T, FAILS), True), ((F, F, F), False),
    ],
)  # fmt: skip
def test_or_is_true_if_any_is_and_else_unknown_if_any_is(parts: tuple[Operand, ...], expected: bool | None) -> None:
    assert either(parts).evaluate(b"") is expected


def test_what_is_unknown_does_not_end_the_search() -> None:
    for join in (both, either):
        with pytest.raises(Incomparable):
            join((N, FAILS)).evaluate(b"")


def test_not_keeps_what_is_unknown() -> None:
    assert [invert(operand).evaluate(b"") for operand in (T, F, N)] == [False, True, None]


def test_a_property_alone_is_never_true() -> None:
    assert truth(read_property("a")).evaluate(b"a\x01true\x02") is False
    assert truth(read_property("a")).evaluate(b"") is None
    assert invert(read_property("a")).evaluate(b"a\x01x\x02") is True


@pytest.mark.parametrize("operand", [literal(Kind.INTEGER, 5), text_literal("'true'"), Operand(Kind.UNKNOWN, _fail)])
def test_numbers_and_texts_are_neither_true_nor_false(operand: Operand) -> None:
    for build in (truth, invert, lambda one: both((T, one)), lambda one: either((one, T))):
        with pytest.raises(Refusal, match="neither true nor false"):
            build(operand)


def test_a_long_row_is_no_deeper_than_a_short_one() -> None:
    row = both([T] * 10 * DEPTH_MAX)
    assert (row.depth, both((T, T)).depth) == (2, 2)
    assert either((read_property("a"), read_property("b"))).cost == 2
