"""Which operator binds to what."""

from __future__ import annotations

import pytest

from orbitmq.errors import InvalidExpression
from orbitmq.filter import compile_sql92
from orbitmq.filter.grammar import parser


def is_true(expression: str, properties: bytes = b"a\x011\x02b\x012\x02t\x01x\x02") -> bool:
    return compile_sql92(expression).matches(properties)


@pytest.mark.parametrize(
    "expression",
    [
        "a = 1 OR b = 1 AND a = 2",
        "NOT (a = 2 OR b = 1) AND t = 'x'",
        "a = 1 = TRUE",
        "TRUE = (a < b)",
        "a BETWEEN 1 AND 1 AND b = 2",
        "a NOT BETWEEN 2 AND 3 AND b = 2",
        "a IN ('1') AND NOT (b IN ('1'))",
        "a IN ('1', '2', '3')",
        "a NOT IN ('2', '3')",
        "c IS NULL = TRUE",
        "a IS NOT NULL",
        "+a = 1",
        "- - 1 = a",
        "((a)) = ((1))",
        "t CONTAINS 'x' AND t NOT CONTAINS 'y' AND t STARTSWITH 'x' AND t NOT STARTSWITH 'y' AND t ENDSWITH 'x'",
        "t NOT ENDSWITH 'y'",
        "not A is null or a between 1 and 2",
        "a >= 1 AND a <= 1 AND a < 2 AND a > 0 AND a <> 2",
        "TRUE OR FALSE",
    ],
)
def test_precedence_is_javas(expression: str) -> None:
    assert is_true(expression)


def test_not_binds_to_the_next_word_alone() -> None:
    assert is_true("NOT a = TRUE")  # a is text, so it is not true
    assert not is_true("NOT (a = 1)")
    with pytest.raises(InvalidExpression):
        compile_sql92("NOT a > 1")


@pytest.mark.parametrize(
    "expression",
    [
        "", " ", "a =", "= a", "a IN ()", "a IN ('x',)", "a IN ('x'", "a IN (1)", "a IN 'x'", "a CONTAINS b", "a CONTAINS 5",
        "a IS", "a IS NOT", "a IS 5", "a BETWEEN 1", "a BETWEEN 1 OR 2", "(a = 1", "NOT", "AND a", "a NOT", "a NOT = 5",
        "a > 1 > 0", "a = 1 NOT NULL", "a IN ('x') IN ('y')", "5 IN ('5')", "-a", "5", "'x'", "a AND 5",
    ],
)  # fmt: skip
def test_what_java_cannot_parse_is_an_error(expression: str) -> None:
    with pytest.raises(InvalidExpression):
        compile_sql92(expression)


def test_the_parser_is_made_once() -> None:
    assert parser() is parser()
