"""The check of what users hand over: numbers and messages, each with its type and its range. Pure."""

from __future__ import annotations

from orbitmq.errors import InvalidArgument
from orbitmq.model.message import Message


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
