"""A broker's settings, told apart by what can be done with them. Pure.

Brokers of ours name the keys without an effect, and those that may be changed while they run; Java's do not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

WITHOUT_EFFECT = "keysWithoutEffect"
MAY_CHANGE = "keysThatMayChange"
NEXT_START = "keysOfTheNextStart"


class Setting(NamedTuple):
    """One setting of a broker; None: the broker does not say."""

    key: str
    value: str
    has_effect: bool | None
    may_change: bool | None
    """While the broker runs."""


def list_settings(shown: Mapping[str, str]) -> list[Setting]:
    """Return what `AdminClient.broker_settings` gave, sorted by key."""
    without_effect, changeable = _keys(shown, WITHOUT_EFFECT), _keys(shown, MAY_CHANGE)
    return [
        Setting(
            key,
            value,
            None if without_effect is None else key not in without_effect,
            None if changeable is None else key in changeable,
        )
        for key, value in sorted(shown.items())
        if key not in (WITHOUT_EFFECT, MAY_CHANGE, NEXT_START)
    ]


def next_start_settings(shown: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that were changed and count from the broker's next start on, with their values then."""
    pairs = (pair.partition(":") for pair in shown.get(NEXT_START, "").split(",") if pair)
    return {key: value for key, _, value in pairs}


def _keys(shown: Mapping[str, str], mark: str) -> frozenset[str] | None:
    return frozenset(shown[mark].split(",")) if mark in shown else None
