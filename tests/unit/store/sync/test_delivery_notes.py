"""The notes of delivered messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.store.disk import LocalDisk
from orbitmq.store.sync.delivery_notes import (
    DeliveryNote,
    DeliveryNotes,
    format_delivery_note,
    parse_delivery_notes,
)
from orbitmq.testing.fake_disk import FakeDisk

PATH = Path("/store/delivered")
FIRST = DeliveryNote(1, 7, 1_000, 2_000, 1_700_000_000_000)
SECOND = DeliveryNote(2, 1 << 40, (1 << 63) - 1, 0, 0)
LAST = DeliveryNote(1_000, 3, 4, 5, 6)


def test_a_note_is_its_numbers_and_their_checksum() -> None:
    assert format_delivery_note(FIRST).hex(" ", 4) == (
        "00000001 00000000 00000000 00000007 00000000 000003e8 00000000 000007d0 0000018b cfe56800 b521ddce"
    )


def test_notes_outlive_their_process_each_in_the_place_of_its_level(tmp_path: Path) -> None:
    notes = DeliveryNotes(LocalDisk(), tmp_path / "delivered")
    assert notes.read() == []
    assert not (tmp_path / "delivered").exists()
    notes.write([LAST, FIRST])
    notes.write([SECOND])
    assert notes.read() == [FIRST, SECOND, LAST]
    notes.write([FIRST._replace(queue_offset=8)])
    notes.close()
    notes.close()
    again = DeliveryNotes(LocalDisk(), tmp_path / "delivered")
    assert again.read() == [FIRST._replace(queue_offset=8), SECOND, LAST]
    again.write([SECOND._replace(queue_offset=9)])
    assert again.read() == [FIRST._replace(queue_offset=8), SECOND._replace(queue_offset=9), LAST]
    assert (tmp_path / "delivered").stat().st_size == 64_000
    again.close()


def test_a_level_beyond_the_highest_that_settings_can_have_is_not_noted() -> None:
    disk = FakeDisk()
    notes = DeliveryNotes(disk, PATH)
    notes.write([LAST._replace(level=1_001), FIRST])
    assert notes.read() == [FIRST]
    assert len(disk.files[PATH].buffer) == 64_000


@pytest.mark.parametrize("at", range(44))
def test_a_note_with_a_damaged_byte_is_none(at: int) -> None:
    content = bytearray(format_delivery_note(FIRST).ljust(64, b"\0") + format_delivery_note(SECOND))
    content[at] ^= 1
    # The four bytes between level and offset are under the checksum as well.
    assert parse_delivery_notes(bytes(content)) == [SECOND]


def test_a_note_in_the_place_of_another_level_is_none() -> None:
    assert parse_delivery_notes(format_delivery_note(SECOND)) == []
    assert parse_delivery_notes(format_delivery_note(FIRST)) == [FIRST]


@pytest.mark.parametrize("size", [0, 1, 43])
def test_a_file_that_was_cut_has_only_whole_notes(size: int) -> None:
    whole = format_delivery_note(FIRST).ljust(64, b"\0")
    assert parse_delivery_notes((whole + format_delivery_note(SECOND))[: 64 + size]) == [FIRST]


def test_zeros_are_no_notes() -> None:
    assert parse_delivery_notes(bytes(64_000)) == []


def test_a_disk_that_is_full_says_so_and_the_notes_before_stay() -> None:
    disk = FakeDisk()
    notes = DeliveryNotes(disk, PATH)
    notes.write([FIRST])
    disk.capacity = 0
    with pytest.raises(OSError, match="No space"):
        notes.write([LAST])
    notes.write([FIRST._replace(queue_offset=8)])
    assert notes.read() == [FIRST._replace(queue_offset=8)]
