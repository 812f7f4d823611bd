"""The patience of a broker: how long its transactions may stay open before it does something about them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

CLOCK_SLACK_MS = 2_000
"""How much the clocks of executors and brokers may differ."""
_OURS = "topicsMax"
"""A setting that Java's brokers do not have: a broker of ours ends a transaction once, however often it is told."""


@dataclass(frozen=True)
class Patience:
    """The limits of one broker, in ms since a half message was made.

    Args:
        direct_ms: until then the driver may end it; later only an answer to the broker's check may. None: at any time.
        given_up_ms: after that it may have been given up.
    """

    direct_ms: int | None
    given_up_ms: int

    def may_end(self, age_ms: int) -> bool:
        """Say whether the driver may still end a half message of this age by itself.

        A Java broker stores an old half message again when it asks about it. Told to commit the older record then, it
        delivers the message, and once more when it gets its answer.
        """
        return self.direct_ms is None or age_ms < self.direct_ms

    def may_be_given_up(self, age_ms: int) -> bool:
        """Say whether a half message of this age may be one that the broker asks nobody about any more."""
        return age_ms >= self.given_up_ms


def patience_of(settings: str) -> Patience:
    """Return the limits that a broker's settings mean (GET_BROKER_CONFIG: Java properties, a line each)."""
    values = dict(line.split("=", 1) for line in settings.splitlines() if "=" in line and not line.startswith("#"))
    timeout_ms = _number(values, "transactionTimeOut", 6_000)
    interval_ms = _number(values, "transactionCheckInterval", 30_000)
    op_ms = _number(values, "transactionOpBatchInterval", 3_000)
    check_max = _number(values, "transactionCheckMax", 15)
    # What a Java broker has committed is written down up to `op_ms` later: until then it would ask, and deliver again.
    direct_ms = None if _OURS in values else max(0, timeout_ms - op_ms - CLOCK_SLACK_MS)
    return Patience(direct_ms, timeout_ms + (check_max - 1) * interval_ms - CLOCK_SLACK_MS)


def _number(values: Mapping[str, str], name: str, default: int) -> int:
    text = values.get(name, "").strip()
    return int(text) if text.isdecimal() else default
