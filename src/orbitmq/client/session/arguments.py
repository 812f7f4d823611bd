"""The check of what users hand over: numbers and messages, each with its type and its range. Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar

from orbitmq.errors import InvalidArgument
from orbitmq.model.message import Message

E = TypeVar("E", bound=StrEnum)


def check_numbers(least: int, **settings: object) -> None:
    """Check settings that are whole numbers of `least` or more.

    Raises:
        InvalidArgument: one of them is something else; names it.
    """
    for name, value in settings.items():
        # True and False are numbers to Python, and mistakes here.
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise InvalidArgument(name, value, f"a whole number, {least} or more")


def check_message(message: object) -> None:
    """Check that something to send is a Message.

    Raises:
        InvalidArgument: it is something else.
    """
    if not isinstance(message, Message):
        raise InvalidArgument("message", message, f"a Message, not {type(message).__name__}: Message(topic, body)")


def check_choice(name: str, value: object, choices: type[E]) -> E:
    """Return the member of an enumeration that a user has named, by itself or by its text.

    Raises:
        InvalidArgument: it is none of them; lists them.
    """
    try:
        return choices(str(value))
    except ValueError:
        listed = ", ".join(f"{choices.__name__}.{choice.name}" for choice in choices)
        raise InvalidArgument(name, value, f"one of {listed}") from None


def check_functions(**settings: object) -> None:
    """Check that settings are functions, or None.

    Raises:
        InvalidArgument: one of them is something else; names it.
    """
    for name, value in settings.items():
        if value is not None and not callable(value):
            raise InvalidArgument(name, value, f"a function, not {type(value).__name__}")
