"""Which operator binds to what."""

from __future__ import annotations

import pytest

from cases import each_case
from orbitmq.errors import InvalidExpression
from orbitmq.filter import compile_sql92
from orbitmq.filter.grammar import UnknownToken, both, either, invert, iter_tokens, parser, place, truth
from orbitmq.filter.numbers import Incomparable
from orbitmq.filter.operands import DEPTH_MAX, Kind, Operand, Refusal, literal, read_property, text_literal


def kinds(expression: str) -> list[str]:
    return [token.kind for token in iter_tokens(expression)]


def texts(expression: str) -> list[str]:
    return [token.text for token in iter_tokens(expression)]


def test_keywords_do_not_care_about_case_and_are_whole_words() -> None:
    assert kinds("not Between IN nota IN_ $in") == ["NOT", "BETWEEN", "IN", "NAME", "NAME", "NAME"]


def test_letters_of_other_alphabets_begin_no_word() -> None:
    for letter in ("ſ", "é", "İ", "\u212a"):
        with pytest.raises(UnknownToken):
            kinds(f"I{letter}")


@each_case(
    ("5", [("DECIMAL", "5")]),
    ("5L5l", [("DECIMAL", "5L"), ("DECIMAL", "5l")]),
    ("007", [("DECIMAL", "0"), ("DECIMAL", "0"), ("DECIMAL", "7")]),
    ("0L", [("DECIMAL", "0"), ("NAME", "L")]),
    ("00.5", [("FLOAT", "00.5")]),
    ("5.", [("FLOAT", "5.")]),
    (".5e+1", [("FLOAT", ".5e+1")]),
    ("5E10", [("FLOAT", "5E10")]),
    ("5e", [("DECIMAL", "5"), ("NAME", "e")]),
    ("1.5f", [("FLOAT", "1.5"), ("NAME", "f")]),
    ("12abc", [("DECIMAL", "12"), ("NAME", "abc")]),
)
def test_a_number_is_the_longest_that_can_be_read(expression: str, found: list[tuple[str, str]]) -> None:
    assert [token[:2] for token in iter_tokens(expression)] == found


@each_case(("''", ["''"]), ("'it''s'", ["'it''s'"]), ("'a\nb' 'c'", ["'a\nb'", "'c'"]), ("'<>--'", ["'<>--'"]))
def test_a_text_ends_at_a_single_quote(expression: str, found: list[str]) -> None:
    assert texts(expression) == found


def test_a_text_that_does_not_end_begins_at_the_longest_one_that_does() -> None:
    tokens = iter_tokens("'a''b")
    assert next(tokens).text == "'a'"
    with pytest.raises(UnknownToken) as caught:
        next(tokens)
    assert caught.value.at == 3


def test_symbols_are_the_longest() -> None:
    assert texts("a<>b<=c>=d<e>f=(,)") == ["a", "<>", "b", "<=", "c", ">=", "d", "<", "e", ">", "f", "=", "(", ",", ")"]


@each_case(" ", "\t\n\r\f", "/**/", "/* a * b ** c */", "/***/", "--c\n", "--\r\n", "/*\n*/ --'\r")
def test_comments_and_space_are_no_words(gap: str) -> None:
    assert texts(f"a{gap}b") == ["a", "b"]


def test_a_comment_without_an_end_is_none() -> None:
    assert texts("a--b") == ["a", "-", "-", "b"]
    with pytest.raises(UnknownToken):
        texts("a /** b")
    with pytest.raises(UnknownToken):  # the first end counts
        texts("a /**/ b */")
    with pytest.raises(UnknownToken):
        texts("b/**'/ 1")


@each_case(*'#!"&|;[]{}?@%^~`\\:*/\0\v', "\u00a0")
def test_other_characters_begin_no_word(letter: str) -> None:
    with pytest.raises(UnknownToken) as caught:
        kinds(f"a {letter} b")
    assert caught.value.at == 2


def test_words_are_made_one_by_one() -> None:
    tokens = iter_tokens("a #")
    assert next(tokens).text == "a"


def test_a_place_is_a_line_and_a_column() -> None:
    assert place("ab\ncd", 0) == "line 1, column 1"
    assert place("ab\ncd", 2) == "line 1, column 3"
    assert place("ab\ncd", 4) == "line 2, column 2"


T, F, N = (literal(Kind.BOOLEAN, value) for value in (True, False, None))


def _fail(properties: bytes) -> bool:
    raise Incomparable


FAILS = Operand(Kind.BOOLEAN, _fail)


@each_case(
    ((T, T), True), ((T, F), False), ((F, T), False), ((T, N), None), ((N, T), None), ((N, F), False), ((F, N), False),
    ((N, N), None), ((T, N, F), False), ((T, T, N), None), ((F, FAILS), False), ((T, T, T), True),
)  # fmt: skip
def test_and_is_false_if_any_is_and_else_unknown_if_any_is(parts: tuple[Operand, ...], expected: bool | None) -> None:
    assert both(parts).evaluate(b"") is expected


@each_case(
    ((T, F), True), ((F, T), True), ((F, F), False), ((N, T), True), ((T, N), True), ((N, F), None), ((F, N), None),
    ((N, N), None), ((F, N, T), True), ((F, F, N), None), ((T, FAILS), True), ((F, F, F), False),
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


@each_case(literal(Kind.INTEGER, 5), text_literal("'true'"), Operand(Kind.UNKNOWN, _fail))
def test_numbers_and_texts_are_neither_true_nor_false(operand: Operand) -> None:
    for build in (truth, invert, lambda one: both((T, one)), lambda one: either((one, T))):
        with pytest.raises(Refusal, match="neither true nor false"):
            build(operand)


def test_a_long_row_is_no_deeper_than_a_short_one() -> None:
    row = both([T] * 10 * DEPTH_MAX)
    assert (row.depth, both((T, T)).depth) == (2, 2)
    assert either((read_property("a"), read_property("b"))).cost == 2


def is_true(expression: str, properties: bytes = b"a\x011\x02b\x012\x02t\x01x\x02") -> bool:
    return compile_sql92(expression).matches(properties)


@each_case(
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
)
def test_precedence_is_javas(expression: str) -> None:
    assert is_true(expression)


def test_not_binds_to_the_next_word_alone() -> None:
    assert is_true("NOT a = TRUE")  # a is text, so it is not true
    assert not is_true("NOT (a = 1)")
    with pytest.raises(InvalidExpression):
        compile_sql92("NOT a > 1")


@each_case(
    "", " ", "a =", "= a", "a IN ()", "a IN ('x',)", "a IN ('x'", "a IN (1)", "a IN 'x'", "a CONTAINS b", "a CONTAINS 5",
    "a IS", "a IS NOT", "a IS 5", "a BETWEEN 1", "a BETWEEN 1 OR 2", "(a = 1", "NOT", "AND a", "a NOT", "a NOT = 5",
    "a > 1 > 0", "a = 1 NOT NULL", "a IN ('x') IN ('y')", "5 IN ('5')", "-a", "5", "'x'", "a AND 5",
)  # fmt: skip
def test_what_java_cannot_parse_is_an_error(expression: str) -> None:
    with pytest.raises(InvalidExpression):
        compile_sql92(expression)


def test_the_parser_is_made_once() -> None:
    assert parser() is parser()
