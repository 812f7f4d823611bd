"""The judgement of a checkpoint, of the end of the log, and of files of lines."""

from __future__ import annotations

import pytest

from orbitmq.store.inspection.issues import (
    Issue,
    LogFacts,
    Severity,
    check_checkpoint,
    check_log_end,
    note,
)
from orbitmq.store.sync.checkpoint import StoreCheckpoint, format_checkpoint

LOG = LogFacts(start=0, end=1000, stored_at_ms=77, is_damaged_at_end=False, entries_end=1000)


def checkpoint(commit_log_ms: int = 77, durable: int = 1000, index_ms: int = 0) -> bytes:
    return format_checkpoint(StoreCheckpoint(commit_log_ms, 77, index_ms, durable, durable))


@pytest.mark.parametrize("durable", [0, 999, 1000])
def test_a_checkpoint_that_covers_what_is_there_is_right(durable: int) -> None:
    assert check_checkpoint(checkpoint(durable=durable), LOG) is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        bytes(39),
        checkpoint(durable=1001),
        checkpoint(commit_log_ms=78),
        checkpoint(index_ms=78),
        checkpoint(commit_log_ms=-1),
    ],
)
def test_a_checkpoint_that_cannot_be_right_differs_from_the_log(content: bytes) -> None:
    found = check_checkpoint(content, LOG)
    assert found is not None
    assert (found.path, found.what, found.severity) == ("checkpoint", "differs from the log", Severity.WRONG)


@pytest.mark.parametrize("content", [None, bytes(4096)])
def test_a_checkpoint_that_says_nothing_is_worth_knowing(content: bytes | None) -> None:
    found = check_checkpoint(content, LOG)
    assert found is not None
    assert (found.path, found.severity) == ("checkpoint", Severity.NOTE)


def test_an_empty_log_needs_no_checkpoint() -> None:
    assert check_checkpoint(None, LOG._replace(end=0)) is None


@pytest.mark.parametrize("log", [LOG._replace(is_damaged_at_end=True), LOG._replace(entries_end=1001)])
def test_a_checkpoint_is_not_blamed_for_a_log_that_has_lost_its_end(log: LogFacts) -> None:
    assert check_checkpoint(checkpoint(durable=2000), log) is None


def test_a_log_that_ends_before_what_checkpoint_and_queues_know_has_lost_its_end() -> None:
    log = LOG._replace(entries_end=1001)
    found = check_log_end(checkpoint(durable=1200), log, "commitlog/7")
    assert found is not None
    assert (found.path, found.offset) == ("commitlog/7", 1000)
    assert "200 bytes are missing" in found.what
    assert "acceptLogEnd=1000" in found.remedy


@pytest.mark.parametrize(
    ("durable", "log"),
    [
        (1000, LOG._replace(entries_end=1001)),
        (1200, LOG),
        (1200, LOG._replace(entries_end=1001, is_damaged_at_end=True)),
    ],
)
def test_a_log_is_not_blamed_on_one_word_alone(durable: int, log: LogFacts) -> None:
    assert check_log_end(checkpoint(durable=durable), log, "commitlog/7") is None


def test_a_note_is_no_fault() -> None:
    assert note("index", "not checked") == Issue("index", None, "not checked", "nothing to do", Severity.NOTE)
