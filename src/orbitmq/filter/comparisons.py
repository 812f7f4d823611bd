"""Comparisons of two operands, as Java compares their values. Pure.

Which comparison it is, is decided once, by the operands' kinds; for a message remains a closure over constants.

Source: Java ComparisonExpression.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from orbitmq.filter.numbers import Incomparable, order_key, parse_double, parse_integer, parse_long
from orbitmq.filter.operands import NUMBERS, TEXTS, Kind, Matches, Operand, Refusal, Truth, deeper
from orbitmq.filter.prefilter import list_prefilter, number_prefilter, text_prefilter

Order = Callable[[Any, Any], bool]
"""One of operator's gt, ge, lt, le; or its eq."""
_FEW_DIGITS = 9
_ZERO = ord("0")

_PARSERS: Final[Mapping[Kind, Callable[[bytes], Any]]] = {
    Kind.INTEGER: parse_integer,
    Kind.LONG: parse_long,
    Kind.DOUBLE: parse_double,
}
_SWAPPED: Final[Mapping[Order, Order]] = {
    operator.gt: operator.lt,
    operator.ge: operator.le,
    operator.lt: operator.gt,
    operator.le: operator.ge,
}


def ordered(left: Operand, right: Operand, order: Order) -> Operand:
    """Return `left > right` and its like: of numbers, and of properties that are some.

    Raises:
        Refusal: one of the operands has no order.
    """
    for operand in (left, right):
        if operand.kind is Kind.BOOLEAN or (operand.is_literal and operand.kind not in NUMBERS):
            raise Refusal("only numbers and properties can be compared by >, >=, <, <= and BETWEEN")
    found = _comparison(_order(left, right, order), left, right)
    return _with_matches(found, _whole_matches(order), left, right)


def between(value: Operand, low: Operand, high: Operand) -> tuple[Operand, Operand]:
    """Return the two comparisons that both hold in between.

    Raises:
        Refusal: as `ordered`; or the limits are in the wrong order.
    """
    parts = ordered(value, low, operator.ge), ordered(value, high, operator.le)
    if low.is_literal and high.is_literal and _compare_numbers(high, low, operator.lt):
        raise Refusal(f"BETWEEN {low.constant!r} AND {high.constant!r}: the first must not be greater than the second")
    return parts


def equal(left: Operand, right: Operand) -> Operand:
    """Return `left = right`.

    Raises:
        Refusal: an operand is NULL, or TRUE or FALSE stands before another literal.
    """
    for operand in (left, right):
        if operand.is_literal and operand.constant is None:
            raise Refusal("NULL cannot be compared: use IS NULL or IS NOT NULL")
    if left.is_literal and right.is_literal and left.kind is Kind.BOOLEAN and right.kind is not Kind.BOOLEAN:
        raise Refusal("TRUE and FALSE cannot be compared with this")
    if left.kind is Kind.PROPERTY and right.kind is Kind.TEXT:
        found = _with_matches(_comparison(_property_equals(left, right), left, right), _text_matches, left, right)
        assert isinstance(right.constant, bytes)
        # Without text there is nothing to look for: an empty value is as good as none.
        return replace(found, prefilter=text_prefilter(left.name.encode(), right.constant)) if right.constant else found
    if left.kind is Kind.PROPERTY and right.kind in NUMBERS:
        found = _comparison(_property_equals(left, right), left, right)
        if isinstance(right.constant, int):
            found = replace(found, prefilter=number_prefilter(left.name.encode(), right.constant))
        return _with_matches(found, _equal_matches, left, right)
    return _comparison(_equality(left, right), left, right)


def is_null(operand: Operand) -> Operand:
    """Return `operand IS NULL`, which is never unknown."""
    evaluate = operand.evaluate
    return _comparison(lambda properties: evaluate(properties) is None, operand)


def is_in(operand: Operand, texts: frozenset[bytes], *, inverted: bool) -> Operand:
    """Return `operand IN (texts)`, or NOT IN; unknown without the property.

    Raises:
        Refusal: the operand is not a property.
    """
    if operand.kind is not Kind.PROPERTY:
        raise Refusal("only a property can be IN a list")
    evaluate = operand.evaluate

    def is_true(properties: bytes) -> bool | None:
        value = evaluate(properties)
        return None if value is None else (value in texts) is not inverted

    found = _comparison(is_true, operand)
    return found if inverted else replace(found, prefilter=list_prefilter(operand.name.encode(), sorted(texts)))


def has_part(operand: Operand, part: bytes, test: Callable[[bytes, bytes], bool], *, inverted: bool) -> Operand:
    """Return `operand CONTAINS part` and its like.

    Never unknown: without the text, without a part, and inverted as well, it is false.

    Args:
        test: tells whether the first text has the second one where it is looked for.
    """
    evaluate = operand.evaluate
    is_text = operand.kind in TEXTS

    def is_true(properties: bytes) -> bool:
        if not part:
            return False
        value = evaluate(properties)
        if value is None or not is_text:
            return False
        assert isinstance(value, bytes)
        return test(value, part) is not inverted

    return _comparison(is_true, operand)


def _comparison(is_true: Truth, *operands: Operand) -> Operand:
    cost = sum(operand.cost for operand in operands)
    return Operand(Kind.BOOLEAN, is_true, depth=deeper(*operands), cost=max(cost, 1))


Maker = Callable[[bytes, Any, Matches], Matches]
"""Makes the question of a property's name, a constant, and the question for values that are not as most are."""


def _with_matches(comparison: Operand, make: Maker, left: Operand, right: Operand) -> Operand:
    """Return a comparison of a property with a text or a whole number, with a question that takes fewer steps.

    A broker asks it of every message that it passes, so that it is one function, without a call inside for most. Without
    the property a comparison is unknown, which is not true.
    """
    if left.kind is not Kind.PROPERTY or right.kind in (Kind.DOUBLE, Kind.PROPERTY, Kind.BOOLEAN, Kind.UNKNOWN):
        return comparison
    return replace(comparison, matches=make(left.name.encode(), right.constant, matcher(comparison)))


def matcher(operand: Operand) -> Matches:
    """Return the question whether an operand is true; what cannot be compared is not."""
    if operand.matches is not None:
        return operand.matches
    is_true = operand.evaluate

    def matches(properties: bytes) -> bool:
        try:
            return is_true(properties) is True
        except Incomparable:
            return False

    return matches


# Each of the three finds the value itself. Before the first property there is no separator, behind the last one there may be
# none. Where `at` is -1 the value begins at the place that is right for the first property, which has one byte less.


def _text_matches(name: bytes, text: bytes, otherwise: Matches) -> Matches:
    first, mark = name + b"\x01", b"\x02" + name + b"\x01"
    size = len(mark)

    def matches(properties: bytes) -> bool:
        at = properties.rfind(mark)
        if at < 0 and not properties.startswith(first):
            return False
        end = properties.find(b"\x02", at + size)
        value = properties[at + size : end] if end >= 0 else properties[at + size :]
        return value == text if value else otherwise(properties)

    return matches


def _equal_matches(name: bytes, number: int, otherwise: Matches) -> Matches:
    first, mark = name + b"\x01", b"\x02" + name + b"\x01"
    size, text = len(mark), b"%d" % number

    def matches(properties: bytes) -> bool:
        at = properties.rfind(mark)
        if at < 0 and not properties.startswith(first):
            return False
        end = properties.find(b"\x02", at + size)
        value = properties[at + size : end] if end >= 0 else properties[at + size :]
        # Digits without a zero before them are a number in the one way to write it, or none that fits.
        return value == text if value.isdigit() and value[0] != _ZERO else otherwise(properties)

    return matches


def _whole_matches(test: Order) -> Maker:
    def make(name: bytes, number: int, otherwise: Matches) -> Matches:
        first, mark = name + b"\x01", b"\x02" + name + b"\x01"
        size = len(mark)

        def matches(properties: bytes) -> bool:
            at = properties.rfind(mark)
            if at < 0 and not properties.startswith(first):
                return False
            end = properties.find(b"\x02", at + size)
            value = properties[at + size : end] if end >= 0 else properties[at + size :]
            is_plain = len(value) <= _FEW_DIGITS and value.isdigit()
            return test(int(value), number) if is_plain else otherwise(properties)

        return matches

    return make


def _order(left: Operand, right: Operand, order: Order) -> Truth:
    if left.kind is Kind.PROPERTY:
        if right.kind in NUMBERS:
            return _order_property(left, right, order)
        if right.kind is Kind.PROPERTY:
            return _order_properties(left, right, order)
    elif left.kind in NUMBERS:
        if right.kind is Kind.PROPERTY:
            return _order_property(right, left, _SWAPPED[order])
        if right.kind in NUMBERS:
            result = _compare_numbers(left, right, order)
            return lambda properties: result
    return _unknown(left, right)


def _unknown(left: Operand, right: Operand) -> Truth:
    """Return unknown, after a look at both: one of them never has a value, but may be incomparable within."""
    first, second = left.evaluate, right.evaluate

    def is_true(properties: bytes) -> None:
        if first(properties) is not None:
            second(properties)

    return is_true


def _order_property(left: Operand, right: Operand, order: Order) -> Truth:
    if right.kind is Kind.DOUBLE:
        return _order_double(left, right, order)
    return _compare_whole(left, right, order)


def _compare_whole(left: Operand, right: Operand, test: Order) -> Truth:
    """Return the comparison of a property with a whole number: the one that most expressions are made of."""
    evaluate, parse, number = left.evaluate, _PARSERS[right.kind], right.constant

    def is_true(properties: bytes) -> bool | None:
        value = evaluate(properties)
        if value is None:
            return None
        assert isinstance(value, bytes)
        # Nine digits fit both types: no more than this is asked of most numbers.
        return test(int(value) if len(value) <= _FEW_DIGITS and value.isdigit() else parse(value), number)

    return is_true


def _order_double(left: Operand, right: Operand, order: Order) -> Truth:
    evaluate, number = left.evaluate, right.constant
    assert isinstance(number, float)
    nan_result = order(1, 0)  # to Java, NaN is greater than every number

    def is_true(properties: bytes) -> bool | None:
        value = evaluate(properties)
        if value is None:
            return None
        assert isinstance(value, bytes)
        found = parse_double(value)
        return order(found, number) if found == found else nan_result

    return is_true


def _order_properties(left: Operand, right: Operand, order: Order) -> Truth:
    first, second = left.evaluate, right.evaluate

    def is_true(properties: bytes) -> bool | None:
        one = first(properties)
        if one is None:
            return None
        other = second(properties)
        if other is None:
            return None
        assert isinstance(one, bytes)
        assert isinstance(other, bytes)
        return order(order_key(parse_double(one)), order_key(parse_double(other)))

    return is_true


def _compare_numbers(left: Operand, right: Operand, order: Order) -> bool:
    one, other = left.constant, right.constant
    assert isinstance(one, int | float)
    assert isinstance(other, int | float)
    if Kind.DOUBLE in (left.kind, right.kind):
        return order(float(one), float(other))
    return order(one, other)


def _property_equals(left: Operand, right: Operand) -> Truth:
    evaluate, constant = left.evaluate, right.constant
    if right.kind is Kind.TEXT:

        def same_text(properties: bytes) -> bool | None:
            value = evaluate(properties)
            return None if value is None else value == constant

        return same_text
    if right.kind is not Kind.DOUBLE:
        return _compare_whole(left, right, operator.eq)

    def same_double(properties: bytes) -> bool | None:
        value = evaluate(properties)
        return None if value is None else parse_double(value) == constant  # type: ignore[arg-type]

    return same_double


def _equality(left: Operand, right: Operand) -> Truth:
    first, second, same = left.evaluate, right.evaluate, _sameness(left, right)

    def is_true(properties: bytes) -> bool | None:
        one, other = first(properties), second(properties)
        if one is None:
            return True if other is None else None
        return False if other is None else same(one, other)

    return is_true


def _sameness(left: Operand, right: Operand) -> Callable[[Any, Any], bool]:
    """Return how two values of these kinds are compared, neither of them absent."""
    if left.kind in TEXTS:
        if right.kind in TEXTS:
            return operator.eq
        if right.kind is Kind.BOOLEAN:
            return lambda text, truth: (text.lower() == b"true") is truth
        if right.kind in NUMBERS:
            parse = _PARSERS[right.kind]
            return lambda text, number: parse(text) == number
    if right.kind in TEXTS:
        if left.kind is Kind.BOOLEAN:
            return _incomparable  # Java takes the truth value for the text here, and fails
        if left.kind in NUMBERS:
            parse = _PARSERS[left.kind]
            return lambda number, text: parse(text) == number
    if left.kind in NUMBERS and right.kind in NUMBERS:
        result = _compare_numbers(left, right, operator.eq)
        return lambda one, other: result
    return operator.eq if left.kind is right.kind else _never


def _never(one: object, other: object) -> bool:
    return False


def _incomparable(one: object, other: object) -> bool:
    raise Incomparable
