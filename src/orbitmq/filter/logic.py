"""AND, OR and NOT of three truth values: true, false and unknown (None). Pure.

Source: Java LogicExpression, UnaryExpression.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from orbitmq.filter.operands import Kind, Matches, Operand, Refusal, Truth, deeper


def truth(operand: Operand) -> Operand:
    """Return an operand that is true, false or unknown. A property alone is none of the first: it is text.

    Raises:
        Refusal: it is a number or a text.
    """
    if operand.kind is Kind.BOOLEAN:
        return operand
    if operand.kind is not Kind.PROPERTY:
        raise Refusal("this is no comparison: it is neither true nor false")
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
