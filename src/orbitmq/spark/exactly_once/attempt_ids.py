"""The stamp of a half message: which attempt of which micro-batch has sent it. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from orbitmq.model.message import PropertyName
from orbitmq.wire.messages.message_id import UniqueKeys

PROPERTY = "SPARK_TRANSACTION"
"""The property that holds the stamp without its serial; consumers see it, and may ignore it."""
SERIAL_MAX = 2**32 - 1
"""A unique key has room for so many."""
_NUMBER_LENGTH_MAX = 18
_COUNT_BITS = 16
_COUNT_MASK = 2**_COUNT_BITS - 1
_IP = "127.0.0.1"
_KEY = re.compile("[0-9A-F]{32}")


class AttemptId(NamedTuple):
    """Where a half message comes from.

    `attempt` names one run of one task and is never used again; `serial` counts what that run has sent, so that of two
    messages of one row each has its own. The serial travels in the message's unique key: the properties of all messages
    of an attempt are the same otherwise, and brokers have made their stored form before.
    """

    query: str
    batch: int
    attempt: str
    serial: int


class AttemptKeys:
    """Makes the unique keys of one attempt, one after the other: each holds its message's serial.

    Args:
        seed: 32 bits that tell attempts apart.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._keys = UniqueKeys(_IP, 0, seed)
        self._next = 0

    def next(self, now_ms: int) -> tuple[int, str]:
        """Return the next serial and its unique key.

        Raises:
            OverflowError: the attempt has had them all.
        """
        serial = self._next
        if serial > SERIAL_MAX:
            raise OverflowError(f"a task sends {SERIAL_MAX + 1} messages at most")
        if serial and not serial & _COUNT_MASK:
            self._keys = UniqueKeys(_IP, serial >> _COUNT_BITS, self._seed)  # its own counter begins at 0 again
        self._next = serial + 1
        return serial, self._keys.next(now_ms)


def format_attempt_id(query: str, batch: int, attempt: str) -> str:
    """Return the property's value, which is the same for all messages of an attempt."""
    return f"{query}/{batch}/{attempt}"


def parse_attempt_id(properties: Mapping[str, str]) -> AttemptId | None:
    """Return the stamp among a message's properties; None: it has none that this sink has made.

    Half messages of earlier versions have their serial behind the attempt.
    """
    parts = properties.get(PROPERTY, "").split("/")
    if len(parts) not in (3, 4) or not all(parts):
        return None
    serial = _serial_of(parts[3:], properties.get(PropertyName.UNIQ_KEY, ""))
    if serial is None or not _is_number(parts[1]):
        return None
    return AttemptId(parts[0], int(parts[1]), parts[2], serial)


def _serial_of(written: list[str], unique_key: str) -> int | None:
    if written:
        return int(written[0]) if _is_number(written[0]) else None
    if _KEY.fullmatch(unique_key) is None:
        return None
    # ip 8 | serial's high half 4 (a plain key's process) | seed 8 | time 8 | its low half 4 (a plain key's counter)
    return int(unique_key[8:12] + unique_key[28:], 16)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _NUMBER_LENGTH_MAX
