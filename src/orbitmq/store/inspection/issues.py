"""Findings of a check: what is wrong with a store's files, and what to do about it. Pure."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from orbitmq.store.sync.checkpoint import LAYOUT_SIZE, parse_checkpoint

START_CUTS = "the next start moves it into quarantine/; `orbitmq store salvage` brings whole records back"
DIFFERS = "differs from the log"
REBUILD = "run `orbitmq store rebuild`, or let the next start rebuild it"
RESTORE = "bring it back from a copy"
NOTHING = "nothing to do"


class Severity(Enum):
    """How much a finding means."""

    WRONG = "wrong"
    """Something was lost, or will be, or cannot be read."""
    NOTE = "note"
    """Worth knowing: nothing is lost by it, or it was not checked."""


class Issue(NamedTuple):
    """One thing that a check has found."""

    path: str
    """The file, below the store's directory."""
    offset: int | None
    """Where in the log or in the file, in bytes."""
    what: str
    remedy: str = NOTHING
    severity: Severity = Severity.WRONG


def note(path: str, what: str, remedy: str = NOTHING, offset: int | None = None) -> Issue:
    """Return a finding that is worth knowing, and no more."""
    return Issue(path, offset, what, remedy, Severity.NOTE)


class LogFacts(NamedTuple):
    """What a walk through the CommitLog has seen, offsets in bytes."""

    start: int
    end: int
    """Where the last whole record ends."""
    stored_at_ms: int
    """When the newest message was stored, 0 without one."""
    is_damaged_at_end: bool
    """Behind the end lie bytes that are not records: what was there is gone."""
    entries_end: int
    """Where the furthest record ends that an entry of a consume queue leads to."""


def check_checkpoint(content: bytes | None, log: LogFacts) -> Issue | None:
    """Check the checkpoint against a log that was walked.

    Args:
        content: None when there is no file.
    """
    slow = "the next start reads the whole log; `orbitmq store rebuild` writes a new one"
    if log.end == log.start:
        return None
    checkpoint = parse_checkpoint(content or b"")
    if content is None or (len(content) >= LAYOUT_SIZE and not any(checkpoint[:5])):
        return note("checkpoint", "is missing" if content is None else "holds zeros alone", slow)
    newest = max(checkpoint.commit_log_ms, checkpoint.consume_queue_ms, checkpoint.index_ms)
    is_beyond = max(checkpoint.durable_offset, checkpoint.entries_end or 0) > log.end or newest > log.stored_at_ms
    is_wrong = is_beyond and not log.is_damaged_at_end and log.entries_end <= log.end
    if len(content) < LAYOUT_SIZE or min(checkpoint[:5]) < 0 or is_wrong:
        return Issue("checkpoint", None, DIFFERS, slow)
    return None


def check_log_end(content: bytes | None, log: LogFacts, file: str) -> Issue | None:
    """Judge where the log ends: less than both the checkpoint and the queues know is not all there was.

    Args:
        content: the checkpoint's.
        file: the file that the log's end lies in, or should.
    """
    durable = parse_checkpoint(content or b"").durable_offset
    if log.is_damaged_at_end or durable <= log.end or log.entries_end <= log.end:
        return None
    missing = durable - log.end
    what = f"the log ends here, and {missing} bytes are missing that were on the disk"
    return Issue(file, log.end, what, f"{RESTORE}, or start the broker with acceptLogEnd={log.end} to go on without")
