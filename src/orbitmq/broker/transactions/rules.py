"""The rules of undecided half messages: one waits, its producer is asked, or it is discarded. Pure.

Source: Java TransactionalMessageServiceImpl.check, EndTransactionProcessor.rejectCommitOrRollback.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from orbitmq.model.message import PropertyName
from orbitmq.wire.messages.properties import parse_properties
from orbitmq.wire.messages.record import Record

RENEW_AFTER_MS = 600_000
"""Ours: a message that may not be asked about yet is written to the queue's end so often. It would hold all ended ones
behind it in the window otherwise; Java writes it again with every round, and counts that as having asked."""
_DIGITS_MAX = 12
_IMMUNITY = PropertyName.CHECK_IMMUNITY.encode()


class CheckDecision(Enum):
    """What a round of checks does with a half message."""

    STOP = "too recent, and so are those behind it"
    SKIP = "its producer asked for more time; others behind it may be due"
    RENEW = "the same, and it has been here for long: it goes to the queue's end"
    CHECK = "its producer is asked, and it goes to the queue's end"
    GIVE_UP = "it was asked about too often, or is too old"


@dataclass(frozen=True, slots=True)
class CheckRules:
    """The settings of the checks.

    Args:
        timeout_ms: how long a producer has before it is asked (transactionTimeOut).
        check_max: how often it is asked (transactionCheckMax).
        reserved_ms: half messages older than this are discarded (fileReservedTime).
    """

    timeout_ms: int
    check_max: int
    reserved_ms: int

    def decide(self, half: Record, properties: Mapping[str, str], now_ms: int) -> CheckDecision:
        """Say what becomes of a half message now.

        Args:
            properties: the message's, parsed.
            now_ms: the wall clock: a half message says when it was born on its producer's.
        """
        age_ms = now_ms - half.born_at_ms
        if times_checked(properties) >= self.check_max or age_ms > self.reserved_ms:
            return CheckDecision.GIVE_UP
        immunity_ms = self.immunity_ms(properties)
        if immunity_ms is not None:
            if age_ms >= immunity_ms:
                return CheckDecision.CHECK
            return CheckDecision.RENEW if now_ms - half.stored_at_ms >= RENEW_AFTER_MS else CheckDecision.SKIP
        # A producer whose clock is ahead is asked immediately, as Java does: when its message was born is unknown.
        return CheckDecision.STOP if 0 <= age_ms < self.timeout_ms else CheckDecision.CHECK

    def immunity_ms(self, properties: Mapping[str, str]) -> int | None:
        """Return how long a producer wants not to be asked, None when it does not say."""
        text = properties.get(PropertyName.CHECK_IMMUNITY)
        if text is None:
            return None
        return int(text) * 1000 if text.isdecimal() and len(text) <= _DIGITS_MAX else self.timeout_ms

    def is_late(self, half: Record, now_ms: int) -> bool:
        """Return True if a producer that wanted not to be asked for a time decides after it: only a check counts then."""
        if _IMMUNITY not in half.properties:  # most do not: nothing is parsed for them
            return False
        immunity_ms = self.immunity_ms(parse_properties(half.properties))
        return immunity_ms is not None and now_ms - half.born_at_ms > max(immunity_ms, self.timeout_ms)


def times_checked(properties: Mapping[str, str]) -> int:
    """Return how often a half message's producer has been asked."""
    text = properties.get(PropertyName.CHECK_TIMES, "0")
    return int(text) if text.isdecimal() and len(text) <= _DIGITS_MAX else 0


def checked_once_more(properties: Mapping[str, str]) -> dict[str, str]:
    """Return what changes in a half message whose producer is asked."""
    return {PropertyName.CHECK_TIMES: str(times_checked(properties) + 1)}


def renewed_unasked(half: Record, properties: Mapping[str, str]) -> dict[str, str]:
    """Return what changes in a half message that goes to the queue's end unasked: it remembers where it was first."""
    first = properties.get(PropertyName.PREPARED_QUEUE_OFFSET) or str(half.queue_offset)
    return {PropertyName.PREPARED_QUEUE_OFFSET: first}
