"""The note of where the CommitLog begins."""

import errno
from pathlib import Path

import pytest

from orbitmq.store.log.beginning import Beginning, parse_beginning
from orbitmq.testing.fake_disk import FakeDisk, PowerCut

PATH = Path("/store/begin")


def test_bytes_before_the_noted_beginning_are_not_missing_and_those_behind_it_are():
    disk = FakeDisk()
    Beginning(disk, PATH).note(4096)
    again = Beginning(disk, PATH)
    assert [again.missing_before(log_min) for log_min in (0, 4096, 8192)] == [0, 0, 4096]


def test_without_a_note_nothing_is_missing():
    assert Beginning(FakeDisk(), PATH).missing_before(8192) == 0


@pytest.mark.parametrize("content", [b"", b"\0\0\0\0\0", b"40\x0096\n", b"-1\n", b"\xb2\n", b"4096 4096\n"])
def test_a_damaged_note_knows_nothing(content):
    assert parse_beginning(content) is None


def test_a_note_that_the_disk_refuses_leaves_the_old_one():
    disk = FakeDisk()
    beginning = Beginning(disk, PATH)
    beginning.note(1024)
    disk.failures["move"] = OSError(errno.EIO, "broken")
    with pytest.raises(OSError, match="broken"):
        beginning.note(2048)
    assert beginning.missing_before(2048) == Beginning(disk, PATH).missing_before(2048) == 1024


def test_a_power_cut_leaves_the_old_note_or_the_new_one():
    disk = FakeDisk()
    Beginning(disk, PATH).note(1024)
    disk.cut_at = disk.operation_count + 2
    with pytest.raises(PowerCut):
        Beginning(disk, PATH).note(2048)
    assert disk.read(PATH) == b"1024\n"
    assert disk.read(PATH.with_name("begin.tmp")) == b"2048\n"


def test_the_same_beginning_is_written_once():
    disk = FakeDisk()
    beginning = Beginning(disk, PATH)
    beginning.note(0)
    count = disk.operation_count
    beginning.note(0)
    assert disk.operation_count == count


def test_a_note_of_more_digits_than_a_number_may_have_knows_nothing():
    assert parse_beginning(b"9" * 5000) is None
