"""Words of an expression, by the rules of Java's grammar."""

from __future__ import annotations

import pytest

from orbitmq.filter.tokens import UnknownToken, iter_tokens, place


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


@pytest.mark.parametrize(
    ("expression", "found"),
    [
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
    ],
)
def test_a_number_is_the_longest_that_can_be_read(expression: str, found: list[tuple[str, str]]) -> None:
    assert [token[:2] for token in iter_tokens(expression)] == found


@pytest.mark.parametrize(
    ("expression", "found"),
    [("''", ["''"]), ("'it''s'", ["'it''s'"]), ("'a\nb' 'c'", ["'a\nb'", "'c'"]), ("'<>--'", ["'<>--'"])],
)
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


@pytest.mark.parametrize(
    "gap", [" ", "\t\n\r\f", "/**/", "/* a * b ** c */", "/***/", "--c\n", "--\r\n", "/*\n*/ --'\r"]
)
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


@pytest.mark.parametrize("letter", [*'#!"&|;[]{}?@%^~`\\:*/\0\v', "\u00a0"])
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
