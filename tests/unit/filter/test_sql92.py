"""Compiled expressions: what matches, what is wrong with them and where, and their limits."""

from __future__ import annotations

import subprocess
import sys
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from orbitmq.errors import InvalidArgument, InvalidExpression
from orbitmq.filter import DEPTH_MAX, LENGTH_MAX, check_sql92, compile_sql92
from orbitmq.filter.numbers import Incomparable


def reason(expression: str) -> str:
    with pytest.raises(InvalidExpression) as caught:
        compile_sql92(expression)
    return caught.value.reason


def test_only_what_is_true_matches() -> None:
    compiled = compile_sql92("price > 10")
    assert compiled.matches(b"price\x0111\x02")
    assert not compiled.matches(b"price\x0110\x02")
    assert not compiled.matches(b"")
    assert compiled.is_true(b"") is None
    assert not compiled.matches(b"price\x01much\x02")
    with pytest.raises(Incomparable):
        compiled.is_true(b"price\x01much\x02")


OPERANDS = ["a", "b", "'1'", "''", "1", "01", "123456789", "2147483648", "-3", "0", "1.0", "TRUE", "NULL"]
LEAVES = st.one_of(
    st.builds(
        " ".join,
        st.tuples(
            st.sampled_from(OPERANDS), st.sampled_from(["=", "<>", ">", ">=", "<", "<="]), st.sampled_from(OPERANDS)
        ),
    ),
    st.sampled_from(
        ["a IN ('1','x')", "a BETWEEN 0 AND 5", "a CONTAINS 'x'", "a IS NULL", "NOT b = 1", "a IS NOT NULL"]
    ),
)
ONE_BY_ONE = [
    b"",
    b"0",
    b"1",
    b"01",
    b"+1",
    b"-3",
    b"3",
    b"x",
    b"1x",
    b"1.0",
    b"true",
    b"123456789",
    b"1234567890",
    b"2147483648",
    b"99999999999",
    "\u0661".encode(),
    b" 1",
]
VALUES = st.sampled_from(ONE_BY_ONE)
PROPERTIES = st.lists(st.tuples(st.sampled_from([b"a", b"b", b"ba", b"c"]), VALUES), max_size=4)


@given(LEAVES, st.lists(st.tuples(st.sampled_from(["AND", "OR"]), LEAVES), max_size=2), PROPERTIES, st.booleans())
def test_the_brokers_question_is_whether_the_verdict_is_true(
    leaf: str, others: list[tuple[str, str]], properties: list[tuple[bytes, bytes]], is_cut: bool
) -> None:
    expression = " ".join([leaf, *(f"{joint} {other}" for joint, other in others)])
    encoded = b"".join(b"%s\x01%s\x02" % pair for pair in properties)
    encoded = encoded[:-1] if is_cut else encoded
    try:
        compiled = compile_sql92(expression)
    except InvalidExpression:
        return
    try:
        expected = compiled.is_true(encoded) is True
    except Incomparable:
        expected = False
    assert compiled.matches(encoded) is expected


@given(
    LEAVES, st.lists(st.tuples(st.sampled_from(["AND", "OR"]), LEAVES), max_size=2), st.lists(PROPERTIES, max_size=9)
)
def test_what_matches_passes_the_prefilter(
    leaf: str, others: list[tuple[str, str]], messages: list[list[tuple[bytes, bytes]]]
) -> None:
    try:
        compiled = compile_sql92(" ".join([leaf, *(f"{joint} {other}" for joint, other in others)]))
    except InvalidExpression:
        return
    encoded = [b"\x02".join(b"%s\x01%s" % pair for pair in properties) for properties in messages]
    passing = range(len(encoded)) if compiled.prefilter is None else compiled.prefilter.passing(encoded)
    assert {index for index, one in enumerate(encoded) if compiled.matches(one)} <= set(passing)


@each_case("a = 1", "a = '1'", "a IN ('1', '7')", "b > 1 AND a = 1", "a IS NOT NULL AND a IN ('1', '7')")
def test_most_expressions_that_few_messages_match_have_a_prefilter(expression: str) -> None:
    prefilter = compile_sql92(expression).prefilter
    assert prefilter is not None
    assert prefilter.passing([b"a\x012\x02b\x015\x02", b"a\x011\x02b\x015\x02"]) == [1]


@each_case(*product(["=", ">", "<="], ["1", "0", "-3", "123456789", "2147483648", "'1'", "'01'", "''"]))
def test_the_question_about_one_property_is_whether_the_verdict_is_true(order: str, constant: str) -> None:
    if order != "=" and constant.startswith("'"):
        return
    compiled = compile_sql92(f"a {order} {constant}")
    for value in [*ONE_BY_ONE, b"1" * 10, b"0" * 10]:
        for encoded in (
            b"a\x01%s\x02" % value,
            b"x\x01y\x02a\x01%s\x02" % value,
            b"x\x01y\x02a\x01%s" % value,
            b"a\x015\x02a\x01%s\x02" % value,
            b"x\x01y\x02a\x01%s\x02a\x01\x02" % value,
            b"x\x01y\x02ba\x01%s\x02" % value,
        ):
            try:
                expected = compiled.is_true(encoded) is True
            except Incomparable:
                expected = False
            assert compiled.matches(encoded) is expected, encoded


def test_what_is_incomparable_matches_under_no_negation() -> None:
    assert not compile_sql92("NOT (price > 10)").matches(b"price\x01much\x02")


@each_case(
    ("a >", "something is missing at the end (line 1, column 4)"),
    ("", "something is missing at the end (line 1, column 1)"),
    ("a = 1\nAND = 2", "= cannot stand here (line 2, column 5)"),
    ("a = 1 OR b ! 2", "no word begins with ! (line 1, column 12)"),
    ("a = 'x", "no word begins with ' (line 1, column 5)"),
    ("a = 1 #", "no word begins with # (line 1, column 7)"),
    ("a = NULL OR b = 1", "NULL cannot be compared: use IS NULL or IS NOT NULL (line 1, column 10)"),
)
def test_an_error_says_what_and_where(expression: str, said: str) -> None:
    assert reason(expression) == said


def test_an_error_is_one_of_an_argument() -> None:
    with pytest.raises(InvalidArgument, match=r"sql: 'a >' is not allowed, expected an SQL92 expression: something"):
        compile_sql92("a >")


@each_case(("a = 1 b #", 6), ("a = 5 + 1", 6), ("a = 1)", 5), ("a IS NULL > 5", 10), ("a = 1 --x", 6))
def test_text_behind_the_end_is_taken_as_java_takes_it_but_not_from_our_users(expression: str, rest_at: int) -> None:
    assert compile_sql92(expression).rest_at == rest_at
    with pytest.raises(InvalidExpression, match=rf"pass over it \(line 1, column {rest_at + 1}\)"):
        check_sql92(expression)


def test_a_whole_expression_has_no_rest() -> None:
    for expression in ("a = 1", "a = 1  ", "a = 1 /* x */", "a = 1 -- x\n"):
        assert check_sql92(expression).rest_at == len(expression)
        assert check_sql92(expression).expression == expression


def test_length_has_an_end() -> None:
    longest = "a = 1" + " " * (LENGTH_MAX - 5)
    assert compile_sql92(longest).cost == 1
    assert reason(longest + " ") == f"more than {LENGTH_MAX} characters (line 1, column {LENGTH_MAX + 1})"


@each_case("NOT {}", "- {}", "{} = TRUE", "{} IS NULL", "{} CONTAINS 'x'", "TRUE AND ({})")
def test_depth_has_an_end(shape: str) -> None:
    expression = "(a = 1)"
    for _ in range(10):
        expression = shape.format(expression)
    compile_sql92(f"({expression}) IS NULL").matches(b"a\x011\x02")
    for _ in range(DEPTH_MAX):
        expression = shape.format(expression)
    assert f"deeper than {DEPTH_MAX}" in reason(f"({expression}) IS NULL")


@each_case(
    "(" * 8_000 + "a = 1" + ")" * 8_000,
    " OR ".join(["a = 1"] * 1_500),
    "+" * 16_000 + "a = 1",
    "a IN (" + ",".join(["'x'"] * 4_000) + ")",
)
def test_what_is_long_but_not_deep_is_fine(expression: str) -> None:
    compiled = compile_sql92(expression)
    assert compiled.matches(b"a\x011\x02") or "IN" in expression


@each_case(
    "'" * 16_001, "'a'" * 5_000 + "'", "/*" * 8_000, "/*" + "*" * 16_000, "--" * 8_000, "1" * 16_000 + "e", "." * 16_000
)
def test_what_never_ends_is_an_error_soon(expression: str) -> None:
    reason(expression)


def test_cost_counts_looks_at_properties() -> None:
    assert compile_sql92("a = 1 AND (b = 2 OR c = a)").cost == 4
    assert compile_sql92("a BETWEEN 1 AND 2").cost == 2
    assert compile_sql92("TRUE").cost == 0


@given(st.text(alphabet="ab1.'()<>=-+*/ \n,eEL$NOTINAD", max_size=60), st.binary(max_size=40))
def test_any_text_is_an_expression_or_an_error(expression: str, properties: bytes) -> None:
    try:
        compiled = compile_sql92(expression)
    except InvalidExpression:
        return
    assert compiled.matches(properties) in (True, False)


@pytest.mark.real
def test_the_grammars_library_is_loaded_with_the_first_expression() -> None:
    program = "import sys, orbitmq.filter; assert 'lark' not in sys.modules; orbitmq.filter.compile_sql92('a = 1'); assert 'lark' in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)
