from __future__ import annotations

import errno
from pathlib import Path
from struct import pack

import pytest

from orbitmq.errors import FileCut
from orbitmq.store.timers.wheel import SLOT_COUNT, SLOT_SIZE, Slot, TimerWheel
from orbitmq.testing.fake_disk import FakeDisk

PATH = Path("/store/timerwheel")


def opened(disk: FakeDisk, precision_ms: int = 1_000, slot_count: int = 10) -> TimerWheel:
    wheel = TimerWheel(disk, PATH, precision_ms, slot_count)
    wheel.open()
    return wheel


def test_the_wheel_of_a_broker_has_javas_size() -> None:
    assert TimerWheel(FakeDisk(), PATH, 1_000).size == 2 * 7 * 24 * 3600 * 32
    assert SLOT_COUNT * 2 * SLOT_SIZE == 38_707_200


def test_a_slot_lies_where_its_time_says_in_steps_of_the_precision(disk: FakeDisk) -> None:
    opened(disk, precision_ms=100).put(Slot(2_300, 52, 104, 2))
    at = 23 % 20 * SLOT_SIZE
    assert bytes(disk.files[PATH].buffer[at : at + SLOT_SIZE]) == pack(">qqqii", 23, 52, 104, 2, 0)


def test_a_slot_of_another_time_is_free() -> None:
    wheel = opened(FakeDisk())
    wheel.put(Slot(5_000, 0, 52, 2))
    assert wheel.slot(5_999) == Slot(5_000, 0, 52, 2)
    assert wheel.slot(6_000) is None
    assert wheel.slot(25_000) is None
    wheel.put(Slot(25_000, 104, 104, 1))
    assert wheel.slot(5_000) is None


def test_what_is_pending_is_told_from_a_time_on_around_the_end_of_the_file() -> None:
    wheel = opened(FakeDisk())
    for time_ms in (18_000, 19_000, 21_000):
        wheel.put(Slot(time_ms, 0, 0, 1))
    assert {slot.due_ms for slot in wheel.pending(19_000)} == {19_000, 21_000}


def test_a_slot_in_the_place_of_another_one_is_not_pending(disk: FakeDisk) -> None:
    wheel = opened(disk)
    disk.files[PATH].buffer[0:SLOT_SIZE] = pack(">qqqii", 7, 0, 0, 1, 0)
    assert list(wheel.pending(1_000)) == []
    assert wheel.slot(7_000) is None


def test_a_wheel_that_was_never_opened_has_nothing() -> None:
    wheel = TimerWheel(FakeDisk(), PATH, 1_000, 10)
    assert not wheel.exists
    assert wheel.slot(1_000) is None
    assert list(wheel.pending(0)) == []
    assert wheel.file is None
    wheel.clear()
    wheel.close()
    wheel.check_whole()


def test_a_cleared_wheel_is_empty_and_a_count_that_fits_no_field_is_cut() -> None:
    wheel = opened(FakeDisk())
    wheel.put(Slot(5_000, 0, 0, 1 << 40))
    assert wheel.slot(5_000) == Slot(5_000, 0, 0, (1 << 31) - 1)
    wheel.clear()
    assert wheel.slot(5_000) is None


def test_a_full_disk_refuses_the_file_before_anything_is_written() -> None:
    disk = FakeDisk(capacity=512)
    wheel = TimerWheel(disk, PATH, 1_000, 10)
    with pytest.raises(OSError) as caught:
        wheel.open()
    assert caught.value.errno == errno.ENOSPC
    assert wheel.file is None


def test_a_file_that_was_cut_is_not_looked_at(disk: FakeDisk) -> None:
    wheel = opened(disk)
    wheel.check_whole()
    disk.files[PATH].was_cut = True
    with pytest.raises(FileCut):
        wheel.check_whole()


def test_a_file_of_another_size_is_not_the_wheel(disk: FakeDisk) -> None:
    disk.open(PATH, 100)
    assert not TimerWheel(disk, PATH, 1_000, 10).exists
    opened(disk).close()
    assert TimerWheel(disk, PATH, 1_000, 10).exists


def test_what_is_due_in_some_steps_is_counted_around_the_end_of_the_file() -> None:
    wheel = opened(FakeDisk())
    for time_ms, count in ((17_000, 2), (19_000, 3), (20_000, 4), (22_000, 5)):
        wheel.put(Slot(time_ms, 0, 0, count))
    assert [wheel.count(17_500, steps) for steps in (0, 1, 3, 4, 6)] == [0, 2, 5, 9, 14]
    assert wheel.count(37_000, 20) == 0, "slots of another time are free"
    assert TimerWheel(FakeDisk(), PATH, 1_000, 10).count(0, 20) == 0
