"""The grammar of expressions, and the parser that lark makes of it. Pure.

The precedence is Java's: OR, AND, then = <> IS, then the other comparisons, then the signs and NOT, which binds to the
next word or parenthesis alone.

Source: Java SelectorParser.jj.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from orbitmq.filter import comparisons
from orbitmq.filter.logic import both, either, invert, truth
from orbitmq.filter.operands import (
    Kind,
    Operand,
    decimal_literal,
    float_literal,
    literal,
    negate,
    read_property,
    text_literal,
    text_of,
)
from orbitmq.filter.tokens import KEYWORDS, LITERALS, SYMBOLS

if TYPE_CHECKING:
    from lark import Lark

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
