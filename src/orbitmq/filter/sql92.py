"""Compiled SQL92 expressions: from text to a question that each message is asked. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from orbitmq.errors import InvalidExpression
from orbitmq.filter.comparisons import matcher
from orbitmq.filter.grammar import UnknownToken, iter_tokens, parser, place
from orbitmq.filter.operands import DEPTH_MAX, Operand, Refusal, Truth
from orbitmq.filter.prefilter import Prefilter

LENGTH_MAX = 16 * 1024
"""Characters of an expression: compiling it takes the event loop for as long."""

__all__ = ["DEPTH_MAX", "LENGTH_MAX", "PropertyFilter", "check_sql92", "compile_sql92"]


@dataclass(frozen=True, eq=False, slots=True)
class PropertyFilter:
    """A compiled expression.

    Args:
        expression: its text.
        is_true: from a message's encoded properties to true, false or unknown; raises Incomparable.
        matches: the same as the question that a broker asks: only what is true matches.
        prefilter: finds those that may match among many messages; None: each has to be asked.
        cost: how often properties are looked at for one message.
        rest_at: where the part begins that means nothing: Java stops at the first word that cannot go on.
    """

    expression: str
    is_true: Truth
    matches: Callable[[bytes], bool]
    prefilter: Prefilter | None
    cost: int
    rest_at: int


def compile_sql92(expression: str) -> PropertyFilter:
    """Compile an expression; what Java takes is taken, text behind its end included.

    Raises:
        InvalidExpression: it means nothing; says what is wrong, and where.
    """
    if len(expression) > LENGTH_MAX:
        raise _invalid(expression, f"more than {LENGTH_MAX} characters", LENGTH_MAX)
    operand, rest_at = _parse(expression)
    is_true = cast(Truth, operand.evaluate)
    return PropertyFilter(expression, is_true, matcher(operand), operand.prefilter, operand.cost, rest_at)


def check_sql92(expression: str) -> PropertyFilter:
    """Compile an expression of our own user: the same, but text that a broker would pass over is an error.

    Raises:
        InvalidExpression: says what is wrong, and where.
    """
    compiled = compile_sql92(expression)
    if compiled.rest_at < len(expression):
        raise _invalid(expression, "the rest is not part of it, and brokers would pass over it", compiled.rest_at)
    return compiled


def _parse(expression: str) -> tuple[Operand, int]:
    """Return what an expression means, and where it ends.

    Raises:
        InvalidExpression
    """
    from lark import Token as Word
    from lark import UnexpectedToken

    state = parser().parse_interactive()
    at, problem = 0, ""
    try:
        for kind, text, place_of_word in iter_tokens(expression):
            at = place_of_word
            try:
                state.feed_token(Word(kind, text))
            except UnexpectedToken:
                # Java's grammar does not ask for the end: what was read so far is the expression, if it can be one.
                problem = f"{text} cannot stand here"
                break
        else:
            at, problem = len(expression), "something is missing at the end"
        operand: Operand = state.feed_token(Word("$END", ""))
    except UnexpectedToken:
        raise _invalid(expression, problem, at) from None
    except UnknownToken as error:
        raise _invalid(expression, f"no word begins with {expression[error.at]}", error.at) from None
    except Refusal as refusal:
        raise _invalid(expression, str(refusal), at) from None
    return operand, at


def _invalid(expression: str, reason: str, at: int) -> InvalidExpression:
    return InvalidExpression(expression, f"{reason} ({place(expression, at)})")
