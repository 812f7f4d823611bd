"""Rules for what users hand over: each says what type and range an argument has. Pure.

A rule is called with an argument's name and value. It returns the value to go on with, or raises InvalidArgument with both
and with what is allowed. Numbers of other kinds (numpy's) become ints: an int64 cannot be written as JSON, and overflows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from operator import index
from typing import Any

from orbitmq.address import parse_name_servers
from orbitmq.errors import InvalidArgument
from orbitmq.model.message import Message
from orbitmq.model.route import MessageQueue
from orbitmq.model.topic import NAME_LENGTH_MAX, check_name

COUNT_MAX = 2**31 - 1
"""What counts and sizes are at most that others than us keep in 32 bits."""
DURATION_MS_MAX = 2**31 - 1
"""24 days: a longer wait is a value in the wrong unit."""
LONG_MAX = 2**63 - 1
"""Times and offsets have 64 bits on the wire."""

Rule = Callable[[str, Any], Any]


def whole(least: int, most: int = COUNT_MAX) -> Rule:
    """Return the rule for whole numbers from `least` to `most`: ints, and what can stand for one (`__index__`)."""

    def check(name: str, value: Any) -> int:
        found = as_int(value)
        if found is None or not least <= found <= most:
            raise InvalidArgument(name, value, f"a whole number from {least} to {most}")
        return found

    return check


def named(length_max: int = NAME_LENGTH_MAX) -> Rule:
    """Return the rule for names of topics and groups."""

    def check(name: str, value: Any) -> Any:
        check_name(name, value, length_max)
        return value

    return check


def instance(*kinds: type, allowed: str) -> Rule:
    """Return the rule for values of some types. What is wrong is told by its type: it may hold secrets, or megabytes."""

    def check(name: str, value: Any) -> Any:
        if not isinstance(value, kinds):
            raise InvalidArgument(name, _type_of(value), allowed)
        return value

    return check


def choice(kind: type[StrEnum], *allowed: StrEnum) -> Rule:
    """Return the rule for the values of an enumeration, or for some of them."""
    members = allowed or tuple(kind)

    def check(name: str, value: Any) -> Any:
        if value not in members:
            raise InvalidArgument(
                name, value, f"one of {', '.join(f'{kind.__name__}.{each.name}' for each in members)}"
            )
        return value

    return check


def optional(rule: Rule) -> Rule:
    """Return a rule's form for arguments that may be left out: None passes."""

    def check(name: str, value: Any) -> Any:
        if value is None:
            return None
        try:
            return rule(name, value)
        except InvalidArgument as error:
            raise InvalidArgument(name, error.value, f"{error.allowed}, or None") from None

    return check


def each(rule: Rule, allowed: str) -> Rule:
    """Return the rule for several values, each of which keeps to a rule; an iterator is not used up for that."""

    def check(name: str, value: Any) -> Any:
        if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
            raise InvalidArgument(name, value, allowed)
        return value if isinstance(value, Iterator) else [rule(name, one) for one in value]

    return check


def one_or_more(rule: Rule, allowed: str) -> Rule:
    """Return the rule for a value that keeps to a rule, or several of them."""
    several = each(rule, allowed)

    def check(name: str, value: Any) -> Any:
        return (several if isinstance(value, Iterable) else rule)(name, value)

    return check


def text(name: str, value: Any) -> Any:
    """Check a text that is not empty."""
    if not isinstance(value, str) or not value:
        raise InvalidArgument(name, value, "a text that is not empty")
    return value


def flag(name: str, value: Any) -> Any:
    """Check a yes or no."""
    if not isinstance(value, bool):
        raise InvalidArgument(name, value, "True or False")
    return value


def function(name: str, value: Any) -> Any:
    """Check something that can be called."""
    if not callable(value):
        raise InvalidArgument(name, value, "a function")
    return value


def servers(name: str, value: Any) -> Any:
    """Check a list of NameServers; an iterator is left to its reader."""
    if not isinstance(value, Iterator):
        try:
            parse_name_servers(value)
        except InvalidArgument as error:
            raise InvalidArgument(name, error.value, error.allowed) from None
    return value


def as_int(value: Any) -> int | None:
    """Return a whole number as an int, None for everything else; True and False are numbers to Python, and mistakes here."""
    try:
        return None if isinstance(value, bool) else index(value)
    except TypeError:
        return None


def queue(name: str, value: Any) -> Any:
    """Check a queue: a MessageQueue, or a tuple like one."""
    match value:
        case (str() as topic, str() as broker_name, found) if isinstance(value, tuple):
            queue_id = as_int(found)
            if queue_id is not None and queue_id >= 0:
                return value if queue_id is found else MessageQueue(topic, broker_name, queue_id)
    raise InvalidArgument(name, value, "a MessageQueue(topic, broker_name, queue_id), such as queues() returns")


def message(name: str, value: Any) -> Any:
    """Check something to send."""
    if not isinstance(value, Message):
        raise InvalidArgument(name, value, f"a Message, not {_type_of(value)}: Message(topic, body)")
    return value


def offsets(name: str, value: Any) -> Any:
    """Check offsets of queues."""
    if not isinstance(value, Mapping):
        raise InvalidArgument(name, value, "a dict of MessageQueue to offset")
    return {queue(name, one): _OFFSET(name, offset) for one, offset in value.items()}


def texts(name: str, value: Any) -> Any:
    """Check name-value pairs."""
    if not isinstance(value, Mapping):
        raise InvalidArgument(name, value, "a dict of text to text")
    for pair in value.items():
        if not (isinstance(pair[0], str) and isinstance(pair[1], str)):
            raise InvalidArgument(name, pair, "a dict of text to text")
    return value


_OFFSET = whole(0, LONG_MAX)


def _type_of(value: Any) -> str:
    return type(value).__name__
