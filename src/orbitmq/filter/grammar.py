"""The grammar of expressions, and the parser that lark makes of it. Pure.

The precedence is Java's: OR, AND, then = <> IS, then the other comparisons, then the signs and NOT, which binds to the
next word or parenthesis alone.

Source: Java SelectorParser.jj.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from orbitmq.filter import comparisons
from orbitmq.filter.operands import (
    Kind,
    Matches,
    Operand,
    Refusal,
    Truth,
    decimal_literal,
    deeper,
    float_literal,
    literal,
    negate,
    read_property,
    text_literal,
    text_of,
)

if TYPE_CHECKING:
    from lark import Lark

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


def truth(operand: Operand) -> Operand:
    """Return an operand that is true, false or unknown. A property alone is none of the first: it is text.

    Raises:
        Refusal: it is a number or a text.
    """
    if operand.kind is Kind.BOOLEAN:
        return operand
    if operand.kind is not Kind.PROPERTY:
        raise Refusal("this is not a comparison: it is neither true nor false")
    evaluate = operand.evaluate
    return Operand(
        Kind.BOOLEAN,
        lambda properties: None if evaluate(properties) is None else False,
        depth=deeper(operand),
        cost=operand.cost,
    )


def both(operands: Sequence[Operand]) -> Operand:
    """Return `a AND b AND ...`; however long the row is, it is no deeper than its deepest part."""
    prefilters = [operand.prefilter for operand in operands if operand.prefilter is not None]
    joined = replace(_join(operands, decisive=False), prefilter=prefilters[0] if prefilters else None)
    questions = [operand.matches for operand in operands]
    if None in questions:
        return joined
    return replace(joined, matches=_all(tuple(cast(list[Matches], questions))))


def _all(questions: tuple[Matches, ...]) -> Matches:
    """Return the question whether all are true. What cannot be compared makes all of it untrue, as what is false does."""

    def matches(properties: bytes) -> bool:
        for question in questions:  # noqa: SIM110 - `all` of a generator takes three times as long
            if not question(properties):
                return False
        return True

    return matches


def either(operands: Sequence[Operand]) -> Operand:
    """Return `a OR b OR ...`."""
    return _join(operands, decisive=True)


def invert(operand: Operand) -> Operand:
    """Return `NOT operand`; what is unknown stays so."""
    evaluate = cast(Truth, truth(operand).evaluate)

    def is_true(properties: bytes) -> bool | None:
        value = evaluate(properties)
        return None if value is None else not value

    return Operand(Kind.BOOLEAN, is_true, depth=deeper(operand), cost=operand.cost)


def _join(operands: Sequence[Operand], *, decisive: bool) -> Operand:
    """Join truth values: the first that is `decisive` decides, and behind it none is looked at."""
    parts = tuple(map(truth, operands))
    are_true = tuple(cast(Truth, part.evaluate) for part in parts)

    def is_true(properties: bytes) -> bool | None:
        result: bool | None = not decisive
        for part in are_true:
            value = part(properties)
            if value is decisive:
                return decisive
            if value is None:
                result = None
        return result

    return Operand(Kind.BOOLEAN, is_true, depth=deeper(*parts), cost=sum(part.cost for part in parts))


_GRAMMAR = """
start: either -> selector
?either: both
    | both (OR both)+ -> either
?both: equality
    | equality (AND equality)+ -> both
?equality: comparison
    | equality EQUAL comparison -> equal
    | equality UNEQUAL comparison -> unequal
    | equality IS NULL -> is_null
    | equality IS NOT NULL -> is_not_null
?comparison: unary
    | comparison (GREATER | GREATER_EQUAL | LESS | LESS_EQUAL) unary -> ordered
    | comparison (CONTAINS | STARTSWITH | ENDSWITH) STRING -> has_part
    | comparison NOT (CONTAINS | STARTSWITH | ENDSWITH) STRING -> lacks_part
    | comparison BETWEEN unary AND unary -> between
    | comparison NOT BETWEEN unary AND unary -> outside
    | comparison IN OPEN STRING (COMMA STRING)* CLOSE -> is_in
    | comparison NOT IN OPEN STRING (COMMA STRING)* CLOSE -> is_not_in
?unary: primary
    | PLUS unary -> plus
    | MINUS unary -> minus
    | NOT unary -> invert
?primary: NAME -> name
    | STRING -> string
    | DECIMAL -> decimal
    | FLOAT -> floating
    | TRUE -> true
    | FALSE -> false
    | NULL -> null
    | OPEN either CLOSE -> group
"""
_ORDERS = {
    "GREATER": operator.gt,
    "GREATER_EQUAL": operator.ge,
    "LESS": operator.lt,
    "LESS_EQUAL": operator.le,
}
_TESTS: dict[str, Callable[[bytes, bytes], bool]] = {
    "CONTAINS": operator.contains,
    "STARTSWITH": bytes.startswith,
    "ENDSWITH": bytes.endswith,
}


@cache
def parser() -> Lark:
    """Return the parser of expressions: made once, when the first expression comes."""
    # Here, not above: lark costs 60 ms at the start of every program, and most brokers and clients filter by tags.
    from lark import Lark
    from lark.lexer import Lexer

    class NoLexer(Lexer):
        """Tokens are fed one by one: a lexer of lark's would look at those behind the end, too."""

        def __init__(self, lexer_conf: object) -> None:
            pass

        def lex(self, lexer_state: Any, parser_state: Any) -> Any:
            raise NotImplementedError

    names = sorted({*KEYWORDS, *SYMBOLS.values(), *LITERALS})
    grammar = f"%declare {' '.join(names)}\n{_GRAMMAR}"
    return Lark(grammar, parser="lalr", lexer=NoLexer, transformer=_Actions(), maybe_placeholders=False)


class _Actions:
    """What becomes of each rule's operands and tokens."""

    def selector(self, children: list[Any]) -> Operand:
        return truth(children[0])

    def either(self, children: list[Any]) -> Operand:
        return either(children[::2])

    def both(self, children: list[Any]) -> Operand:
        return both(children[::2])

    def equal(self, children: list[Any]) -> Operand:
        return comparisons.equal(children[0], children[2])

    def unequal(self, children: list[Any]) -> Operand:
        return invert(self.equal(children))

    def is_null(self, children: list[Any]) -> Operand:
        return comparisons.is_null(children[0])

    def is_not_null(self, children: list[Any]) -> Operand:
        return invert(self.is_null(children))

    def ordered(self, children: list[Any]) -> Operand:
        left, order, right = children
        return comparisons.ordered(left, right, _ORDERS[order.type])

    def has_part(self, children: list[Any]) -> Operand:
        text, test, part = children
        return comparisons.has_part(text, text_of(part), _TESTS[test.type], inverted=False)

    def lacks_part(self, children: list[Any]) -> Operand:
        text, _not, test, part = children
        return comparisons.has_part(text, text_of(part), _TESTS[test.type], inverted=True)

    def between(self, children: list[Any]) -> Operand:
        value, _between, low, _and, high = children
        return both(comparisons.between(value, low, high))

    def outside(self, children: list[Any]) -> Operand:
        value, _not, _between, low, _and, high = children
        below = comparisons.ordered(value, low, operator.lt)
        return either((below, comparisons.ordered(value, high, operator.gt)))

    def is_in(self, children: list[Any]) -> Operand:
        return comparisons.is_in(children[0], _listed(children), inverted=False)

    def is_not_in(self, children: list[Any]) -> Operand:
        return comparisons.is_in(children[0], _listed(children), inverted=True)

    def plus(self, children: list[Any]) -> Any:
        return children[1]

    def minus(self, children: list[Any]) -> Operand:
        return negate(children[1])

    def invert(self, children: list[Any]) -> Operand:
        return invert(children[1])

    def name(self, children: list[Any]) -> Operand:
        return read_property(children[0])

    def string(self, children: list[Any]) -> Operand:
        return text_literal(children[0])

    def decimal(self, children: list[Any]) -> Operand:
        return decimal_literal(children[0])

    def floating(self, children: list[Any]) -> Operand:
        return float_literal(children[0])

    def true(self, children: list[Any]) -> Operand:
        return literal(Kind.BOOLEAN, True)

    def false(self, children: list[Any]) -> Operand:
        return literal(Kind.BOOLEAN, False)

    def null(self, children: list[Any]) -> Operand:
        return literal(Kind.BOOLEAN, None)

    def group(self, children: list[Any]) -> Any:
        return children[1]


def _listed(children: list[Any]) -> frozenset[bytes]:
    return frozenset(text_of(child) for child in children[1:] if child.type == "STRING")
