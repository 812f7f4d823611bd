"""The stamp of a half message: which attempt of which micro-batch has sent it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

PROPERTY = "SPARK_TRANSACTION"
"""The property that holds the stamp; consumers see it, and may ignore it."""
_NUMBER_LENGTH_MAX = 18


class Stamp(NamedTuple):
    """Where a half message comes from.

    `attempt` names one run of one task and is never used again; `serial` counts what that run has sent, so that of two
    messages of one row each has its own.
    """

    query: str
    batch: int
    attempt: str
    serial: int


def format_stamp(stamp: Stamp) -> str:
    """Return the property's value."""
    return f"{stamp.query}/{stamp.batch}/{stamp.attempt}/{stamp.serial}"


def parse_stamp(properties: Mapping[str, str]) -> Stamp | None:
    """Return the stamp among a message's properties; None: it has none that this sink has made."""
    parts = properties.get(PROPERTY, "").split("/")
    if len(parts) != 4 or not all(parts):
        return None
    query, batch, attempt, serial = parts
    if not _is_number(batch) or not _is_number(serial):
        return None
    return Stamp(query, int(batch), attempt, int(serial))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _NUMBER_LENGTH_MAX
