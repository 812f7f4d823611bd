"""The notes about deleted topics."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from orbitmq.store.queues.deletions import Deletions, parse_deletions
from orbitmq.testing.fake_disk import FakeDisk

PATH = Path("/store/deleted")


def noted(disk: FakeDisk) -> dict[str, int]:
    return parse_deletions(disk.read(PATH))


def test_records_from_before_a_deletion_are_told_from_later_ones_also_by_the_next_start(disk: FakeDisk) -> None:
    Deletions(disk, PATH).note("orders", 700)
    assert disk.files[PATH].durable is not None
    for notes in (Deletions(disk, PATH), Deletions(disk.after_kill(), PATH)):
        assert notes.topics == {"orders"}
        assert notes.covers("orders", 699)
        assert not notes.covers("orders", 700)
        assert not notes.covers("bills", 0)


def test_a_second_deletion_counts_from_later_on(disk: FakeDisk) -> None:
    notes = Deletions(disk, PATH)
    for end in (700, 900):
        notes.note("with blank", end)
    assert noted(disk) == {"with blank": 900}


def test_notes_end_with_the_log_and_go_when_its_beginning_has_passed_them(disk: FakeDisk) -> None:
    notes = Deletions(disk, PATH)
    for topic, end in (("gone", 100), ("kept", 101), ("lost", 900)):
        notes.note(topic, end)
    notes.fit(100, 500)
    assert noted(disk) == {"kept": 101, "lost": 500}
    assert not notes.covers("lost", 500)
    assert notes.topics == {"kept", "lost"}


def test_notes_that_fit_are_not_written_again(disk: FakeDisk) -> None:
    notes = Deletions(disk, PATH)
    notes.fit(0, 100)
    assert not disk.exists(PATH)


@pytest.mark.parametrize("operation", ["write", "move"])
def test_a_note_that_the_disk_refuses_is_none(operation: str, disk: FakeDisk) -> None:
    notes = Deletions(disk, PATH)
    notes.note("bills", 5)
    disk.failures[operation] = OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(OSError, match="No space"):
        notes.note("orders", 700)
    assert noted(disk) == {"bills": 5}
    assert notes.topics == {"bills"}


def test_damaged_lines_say_nothing() -> None:
    assert parse_deletions(b"\xff\xfe\0\n7 \n orders\nx orders\n-1 orders\n3 bills\n\n") == {"bills": 3}


def test_a_line_of_more_digits_than_a_number_may_have_says_nothing() -> None:
    assert parse_deletions(b"9" * 5000 + b" orders\n3 bills\n") == {"bills": 3}
