"""The checkpoint file, and the notes of delivered messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from cases import each_case
from orbitmq.store.local_disk import LocalDisk
from orbitmq.store.sync.checkpoint import StoreCheckpoint, format_checkpoint, parse_checkpoint
from orbitmq.store.sync.delivery_progress import (
    DeliveryProgress,
    LevelProgress,
    format_delivery_note,
    parse_delivery_notes,
)
from orbitmq.testing.fake_disk import FakeDisk

PATH = Path("/store/delivered")
FIRST = LevelProgress(1, 7, 1_000, 2_000, 1_700_000_000_000)
SECOND = LevelProgress(2, 1 << 40, (1 << 63) - 1, 0, 0)
LAST = LevelProgress(1_000, 3, 4, 5, 6)


def test_a_note_is_its_numbers_and_their_checksum() -> None:
    assert format_delivery_note(FIRST).hex(" ", 4) == (
        "00000001 00000000 00000000 00000007 00000000 000003e8 00000000 000007d0 0000018b cfe56800 b521ddce"
    )


def test_notes_outlive_their_process_each_in_the_place_of_its_level(tmp_path: Path) -> None:
    notes = DeliveryProgress(LocalDisk(), tmp_path / "delivered")
    assert notes.read() == []
    assert not (tmp_path / "delivered").exists()
    notes.write([LAST, FIRST])
    notes.write([SECOND])
    assert notes.read() == [FIRST, SECOND, LAST]
    notes.write([FIRST._replace(queue_offset=8)])
    notes.close()
    notes.close()
    again = DeliveryProgress(LocalDisk(), tmp_path / "delivered")
    assert again.read() == [FIRST._replace(queue_offset=8), SECOND, LAST]
    again.write([SECOND._replace(queue_offset=9)])
    assert again.read() == [FIRST._replace(queue_offset=8), SECOND._replace(queue_offset=9), LAST]
    assert (tmp_path / "delivered").stat().st_size == 64_000
    again.close()


def test_a_level_beyond_the_highest_that_settings_can_have_is_not_noted(disk: FakeDisk) -> None:
    notes = DeliveryProgress(disk, PATH)
    notes.write([LAST._replace(level=1_001), FIRST])
    assert notes.read() == [FIRST]
    assert len(disk.files[PATH].buffer) == 64_000


@each_case(*range(44))
def test_a_note_with_a_damaged_byte_is_none(at: int) -> None:
    content = bytearray(format_delivery_note(FIRST).ljust(64, b"\0") + format_delivery_note(SECOND))
    content[at] ^= 1
    # The four bytes between level and offset are under the checksum as well.
    assert parse_delivery_notes(bytes(content)) == [SECOND]


def test_a_note_in_the_place_of_another_level_is_none() -> None:
    assert parse_delivery_notes(format_delivery_note(SECOND)) == []
    assert parse_delivery_notes(format_delivery_note(FIRST)) == [FIRST]


@each_case(0, 1, 43)
def test_a_file_that_was_cut_has_only_whole_notes(size: int) -> None:
    whole = format_delivery_note(FIRST).ljust(64, b"\0")
    assert parse_delivery_notes((whole + format_delivery_note(SECOND))[: 64 + size]) == [FIRST]


def test_zeros_are_no_notes() -> None:
    assert parse_delivery_notes(bytes(64_000)) == []


def test_a_disk_that_is_full_says_so_and_the_notes_before_stay(disk: FakeDisk) -> None:
    notes = DeliveryProgress(disk, PATH)
    notes.write([FIRST])
    disk.capacity = 0
    with pytest.raises(OSError, match="No space"):
        notes.write([LAST])
    notes.write([FIRST._replace(queue_offset=8)])
    assert notes.read() == [FIRST._replace(queue_offset=8)]


SOME = StoreCheckpoint(
    commit_log_ms=1_700_000_010_000,
    consume_queue_ms=1_700_000_005_000,
    index_ms=7,
    flushed_offset=8,
    confirmed_offset=9,
    entries_end=5,
)


def test_the_file_is_javas_five_longs_and_one_of_ours_in_a_page():
    content = format_checkpoint(SOME)
    assert len(content) == 4096
    assert (
        content[:40].hex(" ", 8)
        == "0000018bcfe58f10 0000018bcfe57b88 0000000000000007 0000000000000008 0000000000000009"
    )
    assert content[40:52].hex(" ", 8) == "00000000 0000000552aa3708"
    assert not any(content[52:])
    assert parse_checkpoint(content) == SOME


def test_what_java_has_written_over_has_no_end_of_entries():
    content = (1).to_bytes(8, "big") + format_checkpoint(SOME)[8:]
    assert parse_checkpoint(content) == SOME._replace(commit_log_ms=1, entries_end=None)


@each_case(b"", bytes(39))
def test_a_missing_or_cut_file_knows_nothing(content):
    assert parse_checkpoint(content) == StoreCheckpoint()
    assert parse_checkpoint(content).covered_end([(4096, 1)]) == 0


@each_case((1_700_000_002_000, 8192), (1_700_000_002_001, 4096), (0, 4096))
def test_of_times_alone_recovery_trusts_files_that_began_three_seconds_before_both(stored_at_ms, covered):
    of_java = SOME._replace(entries_end=None)
    assert of_java.covered_end([(8192, stored_at_ms), (4096, 1), (0, 1)]) == covered
    assert of_java._replace(commit_log_ms=2000).covered_end([(4096, 1)]) == 0
    assert SOME.covered_end([(8192, 1)]) == 5


def test_while_entries_are_written_again_recovery_trusts_those_before_them_alone():
    assert SOME.without_entries_from(4, 1_700_000_000_500) == SOME._replace(
        entries_end=4, consume_queue_ms=1_700_000_003_499
    )
    assert SOME.without_entries_from(6, 1_700_000_009_000) == SOME
    assert SOME.without_entries_from(0, 0)[-1] == 0


def test_nothing_is_known_without_being_told_and_the_five_numbers_alone_are_enough():
    assert StoreCheckpoint() == (0, 0, 0, 0, 0, None)
    assert parse_checkpoint(format_checkpoint(SOME)[:40]) == SOME._replace(entries_end=None)
