"""The names that a NameServer accepts from brokers and administrators. Pure.

Brokers register topics that no user could create: their own host name, `%RETRY%group+topic` of pop consumers. So the
alphabet is a little wider than a user's topic (`model.topic.check_name`), and still has nothing in it that means
something to a shell, a path, a page or a log.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from orbitmq.errors import InvalidArgument

LENGTH_MAX = 255

_ALPHABET = "letters, digits and % | _ - . + : @ # = ~"
_NAME = re.compile(r"[%|a-zA-Z0-9_.+:@#=~-]{1,255}")
_NAMES = re.compile(rf"{_NAME.pattern}(?:\n{_NAME.pattern})*+")


def check_registered_name(kind: str, name: str) -> str:
    """Return a broker, cluster or topic name that may be registered.

    Raises:
        InvalidArgument: empty, longer than 255 characters, or with other characters.
    """
    if _NAME.fullmatch(name) is None or ".." in name:
        raise InvalidArgument(kind, name, f"1 to {LENGTH_MAX} characters, only {_ALPHABET}")
    return name


def illegal_names(names: Iterable[str]) -> frozenset[str]:
    """Return those of many names that `check_registered_name` would refuse."""
    names = tuple(names)
    joined = "\n".join(names)
    # A name with a line feed of its own would pass as two.
    if joined.count("\n") < len(names) and _NAMES.fullmatch(joined) is not None and ".." not in joined:
        return frozenset()
    return frozenset(name for name in names if _NAME.fullmatch(name) is None or ".." in name)
