"""An expression as tokens, by the rules of Java's grammar. Pure.

Each token is the longest that can begin where it begins; keywords do not care about case, and letters are those of
ASCII. Tokens are made one by one: Java does not look at what stands behind the first token that cannot go on.

Source: Java SelectorParser.jj.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

KEYWORDS = frozenset(
    ["NOT", "AND", "OR", "BETWEEN", "IN", "TRUE", "FALSE", "NULL", "IS", "CONTAINS", "STARTSWITH", "ENDSWITH"]
)
SYMBOLS = {
    "=": "EQUAL",
    "<>": "UNEQUAL",
    ">": "GREATER",
    ">=": "GREATER_EQUAL",
    "<": "LESS",
    "<=": "LESS_EQUAL",
    "(": "OPEN",
    ")": "CLOSE",
    ",": "COMMA",
    "+": "PLUS",
    "-": "MINUS",
}
LITERALS = ("NAME", "STRING", "DECIMAL", "FLOAT")

# A line comment ends with its line: without an end it is two minus signs. Each repetition takes its characters in one
# way only, so that trying takes no longer than reading.
_TOKEN = re.compile(
    r"""
      (?P<SPACE>[ \t\n\r\f]++ | --[^\n\r]*+(?:\r\n|\n|\r) | /\*[^*]*+\*(?:\*|[^*/][^*]*+\*)*/)
    | (?P<FLOAT>(?:[0-9]++\.[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]++)? | [0-9]++[eE][+-]?[0-9]++)
    | (?P<DECIMAL>0|[1-9][0-9]*+[lL]?)
    | (?P<NAME>[A-Za-z_$][A-Za-z0-9_$]*+)
    | (?P<STRING>'[^']*+(?:''[^']*+)*')
    | (?P<SYMBOL><>|[<>]=|[=<>(),+-])
    """,
    re.VERBOSE,
)


class Token(NamedTuple):
    """One word of an expression; `at` is the index of its first character."""

    kind: str
    text: str
    at: int


class UnknownToken(Exception):
    """No token begins here.

    Args:
        at: index of the character.
    """

    def __init__(self, at: int) -> None:
        super().__init__(at)
        self.at = at


def iter_tokens(expression: str) -> Iterator[Token]:
    """Yield the tokens of an expression.

    Raises:
        UnknownToken: no token begins where the one before has ended.
    """
    at, end = 0, len(expression)
    while at < end:
        found = _TOKEN.match(expression, at)
        if found is None:
            raise UnknownToken(at)
        kind, text = found.lastgroup, found[0]
        assert kind is not None
        if kind == "NAME" and text.upper() in KEYWORDS:
            kind = text.upper()
        elif kind == "SYMBOL":
            kind = SYMBOLS[text]
        if kind != "SPACE":
            yield Token(kind, text, at)
        at = found.end()


def place(expression: str, at: int) -> str:
    """Return in words where a character stands, lines and columns counted from 1."""
    line = expression.count("\n", 0, at) + 1
    column = at - (expression.rfind("\n", 0, at) + 1) + 1
    return f"line {line}, column {column}"
