"""The rules by which files of the store are deleted. Pure: how full the disk is, the hour and all times come in.

Source: Java DefaultMessageStore.CleanCommitLogService.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

HOUR_MS = 3_600_000
DAY_HOURS = 24

HourOf = Callable[[int], int]
"""Returns the hour of the day, 0 to 23, of a time in ms."""


class Usage(Enum):
    """What it means that so much of the disk is used."""

    FINE = "fine"
    HIGH = "high"
    """Files that have expired go now, whatever the hour."""
    FORCING = "forcing"
    """The oldest files go, expired or not."""
    FULL = "full"
    """So they do, and nothing is stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionRules:
    """When what is deleted; each is a setting of Java's. Ratios are shares of the disk, 0 to 1.

    Args:
        reserved_ms: messages are kept for so long (fileReservedTime).
        delete_hours: at these hours of the day what has expired is deleted (deleteWhen).
        high_ratio: above it what has expired is deleted at any hour (diskMaxUsedSpaceRatio).
        forcing_ratio: above it the oldest files are deleted, expired or not (diskSpaceCleanForciblyRatio).
        full_ratio: above it nothing is stored until the disk is below `forcing_ratio` (diskSpaceWarningLevelRatio).
        may_force: False: only what has expired is ever deleted (cleanFileForciblyEnable).
        batch_max: files of the CommitLog that go in one round (deleteFileBatchMax).
        segment_pause_ms: between two of them (deleteCommitLogFilesInterval).
        queue_pause_ms: between two queues that lose files (deleteConsumeQueueFilesInterval).
        round_ms: how often it is looked (cleanResourceInterval).
    """

    reserved_ms: int = 72 * HOUR_MS
    delete_hours: frozenset[int] = frozenset((4,))
    high_ratio: float = 0.75
    forcing_ratio: float = 0.85
    full_ratio: float = 0.90
    may_force: bool = True
    batch_max: int = 10
    segment_pause_ms: int = 100
    queue_pause_ms: int = 100
    round_ms: int = 10_000


JAVA_RULES = RetentionRules()
"""The defaults of a Java broker."""


def check_usage(used_ratio: float | None, rules: RetentionRules) -> Usage:
    """Say what it means that so much of the disk is used.

    Args:
        used_ratio: None: unknown; what has expired is deleted then, as in Java.
    """
    if used_ratio is None:
        return Usage.HIGH
    if used_ratio > rules.full_ratio:
        return Usage.FULL
    if used_ratio > rules.forcing_ratio:
        return Usage.FORCING
    return Usage.HIGH if used_ratio > rules.high_ratio else Usage.FINE


def is_refusing(usage: Usage, was_refusing: bool) -> bool:
    """Return True if messages are refused: from FULL on, until the disk is below FORCING again."""
    return usage is Usage.FULL or (usage is Usage.FORCING and was_refusing)


def is_time_to_delete(usage: Usage, hour: int, *, is_asked: bool, rules: RetentionRules) -> bool:
    """Return True if this round deletes anything.

    Args:
        is_asked: an administrator has asked for it.
    """
    return usage is not Usage.FINE or is_asked or hour in rules.delete_hours


def may_delete(age_ms: int | None, usage: Usage, rules: RetentionRules) -> bool:
    """Return True if the oldest file may go, in a round that deletes.

    Args:
        age_ms: every message in it is that old at least; None: unknown.
    """
    if rules.may_force and usage in (Usage.FORCING, Usage.FULL):
        return True
    return age_ms is not None and age_ms >= rules.reserved_ms


def parse_hours(text: str) -> frozenset[int]:
    """Parse deleteWhen: hours of the day with semicolons between them.

    Raises:
        ValueError: not such a text.
    """
    hours = frozenset(int(hour) for hour in text.split(";"))
    if not all(0 <= hour < DAY_HOURS for hour in hours):
        raise ValueError(f"{text}: hours are 0 to 23")
    return hours
