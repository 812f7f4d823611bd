"""The timer log and the timers' checkpoint."""

from __future__ import annotations

from pathlib import Path
from struct import pack

import pytest

from cases import each_case
from orbitmq.errors import DamagedLog, FileCut
from orbitmq.model.topic import DataVersion
from orbitmq.store.timers.checkpoint import (
    TimerCheckpoint,
    format_timer_checkpoint,
    format_timer_checkpoint_file,
    parse_timer_checkpoint,
)
from orbitmq.store.timers.log import TimerLog
from orbitmq.store.timers.units import BLANK_LAYOUT, BLANK_MAGIC, UNIT_SIZE
from orbitmq.testing.fake_disk import FakeDisk

DIRECTORY = Path("/store/timerlog")
FILE_SIZE = 4 * UNIT_SIZE
"""Three units, and a blank behind them."""


def opened(disk: FakeDisk, end: int | None = None, file_size: int = FILE_SIZE) -> TimerLog:
    log = TimerLog(disk, DIRECTORY, file_size)
    log.load()
    log.cut(log.find_end(0, 1 << 40) if end is None else end)
    return log


def filled(disk: FakeDisk, count: int) -> tuple[TimerLog, list[int]]:
    log = opened(disk)
    return log, [log.append(-1, 1, 1_000, number, (number * 10, 10, 7)) for number in range(count)]


CHECKPOINT = TimerCheckpoint(1_000, 52, 3, 4, DataVersion(5, 6, 7))


def test_units_lie_behind_one_another_and_a_file_ends_with_a_blank(disk: FakeDisk) -> None:
    log, places = filled(disk, 5)
    assert places == [0, 52, 104, FILE_SIZE, FILE_SIZE + 52]
    blank = bytes(disk.files[DIRECTORY / ("0" * 20)].buffer[156 : 156 + BLANK_LAYOUT.size])
    assert BLANK_LAYOUT.unpack(blank) == (52, 0, BLANK_MAGIC)
    assert [unit.delay_ms for _, unit in log.units(0, log.end)] == [0, 1, 2, 3, 4]
    assert [place for place, _ in log.units(52, FILE_SIZE + 52)] == [52, 104, FILE_SIZE]


def test_units_of_one_slot_are_appended_together_as_one_by_one_a_file_at_a_time() -> None:
    messages = [(number * 10, 10, 7) for number in range(8)]
    together, one_by_one = FakeDisk(), FakeDisk()
    log, last, left, taken = opened(together), -1, list(messages), []
    log.append(-1, 1, 1_000, 9, (0, 1, 0))
    while left:
        first, last, count = log.append_some(last, 1, 1_000, 5, left)
        taken.append((first, last, count))
        del left[:count]
    assert taken == [(52, 104, 2), (FILE_SIZE, FILE_SIZE + 104, 3), (2 * FILE_SIZE, 2 * FILE_SIZE + 104, 3)]
    other, last = opened(one_by_one), -1
    other.append(-1, 1, 1_000, 9, (0, 1, 0))
    for message in messages:
        last = other.append(last, 1, 1_000, 5, message)
    assert log.end == other.end
    assert [bytes(file.buffer) for file in together.files.values()] == [
        bytes(file.buffer) for file in one_by_one.files.values()
    ]


def test_a_log_goes_on_where_it_ended(disk: FakeDisk) -> None:
    filled(disk, 4)
    log = opened(disk)
    assert log.end == FILE_SIZE + 52
    assert log.append(-1, 1, 0, 9, (0, 1, 0)) == FILE_SIZE + 52
    assert len(list(log.units(0, log.end))) == 5


def test_a_log_that_ends_with_a_full_file_goes_on_in_the_next(disk: FakeDisk) -> None:
    filled(disk, 3)
    log = opened(disk)
    assert log.end == 156
    assert log.append(-1, 1, 0, 9, (0, 1, 0)) == FILE_SIZE


def test_the_end_is_before_the_first_unit_that_is_not_whole(disk: FakeDisk) -> None:
    log, places = filled(disk, 5)
    disk.files[DIRECTORY / ("0" * 20)].buffer[places[1]] = 9
    assert log.find_end(0, 1 << 40) == places[1]
    assert log.find_end(places[2], 1 << 40) == log.end
    assert log.cut(places[1]) > 0
    assert (log.end, log.files_end) == (places[1], FILE_SIZE)
    assert log.unit(places[2]) is None


def test_the_end_is_before_the_first_unit_whose_message_the_commit_log_has_lost() -> None:
    log, places = filled(FakeDisk(), 5)
    assert log.find_end(0, 30) == places[3]


def test_a_chain_leads_back_and_ends_where_its_file_was_deleted(disk: FakeDisk) -> None:
    log = opened(disk)
    place = -1
    for number in range(6):
        place = log.append(place, 1, 0, 5, (number, 1, 0))
    assert [unit.physical_offset for _, unit in log.chain(place) if unit] == [5, 4, 3, 2, 1, 0]
    assert log.delete_before(3) == 1
    assert [unit.physical_offset for _, unit in log.chain(place) if unit] == [5, 4, 3]
    disk.files[DIRECTORY / f"{FILE_SIZE:020d}"].buffer[0] = 9
    assert [unit for _, unit in log.chain(place)][-1] is None


def test_a_file_whose_messages_are_gone_is_deleted_but_not_the_last_one(disk: FakeDisk) -> None:
    log, _ = filled(disk, 8)
    assert log.delete_before(20) == 0
    assert log.delete_before(21) == 1
    assert log.base == FILE_SIZE
    assert log.delete_before(1 << 40) == 1
    assert list(disk.sizes(DIRECTORY)) == [f"{2 * FILE_SIZE:020d}"]
    assert log.unit(0) is None


def test_a_file_whose_last_unit_cannot_be_read_stays(disk: FakeDisk) -> None:
    log, _ = filled(disk, 8)
    disk.files[DIRECTORY / ("0" * 20)].buffer[104] = 9
    assert log.delete_before(1 << 40) == 0


def test_what_is_due_is_counted_less_what_takes_back() -> None:
    log = opened(FakeDisk())
    for magic, delay in ((1, 10), (3, 20), (5, 20), (1, 30), (7, 30)):
        log.append(-1, magic, 1_000, delay, (0, 1, 0))
    assert log.count_due(0, 1_000) == 1
    assert log.count_due(0, 1_020) == 0
    assert log.count_due(52, 1_020) == 0
    assert log.count_due(104, 1_030) == 0
    assert log.count_due(FILE_SIZE, 1_030) == 0


def test_the_last_unit_is_found_behind_blanks_and_file_ends() -> None:
    log, _ = filled(FakeDisk(), 4)
    assert [log.last_before(end).delay_ms for end in (52, 156, FILE_SIZE, log.end)] == [0, 2, 2, 3]
    assert log.last_before(0) is None


def test_a_place_is_rounded_to_its_unit_and_in_the_blank_to_the_blank() -> None:
    log, _ = filled(FakeDisk(), 4)
    assert [log.aligned(at) for at in (0, 51, 53, 157, 207, FILE_SIZE + 60)] == [0, 0, 52, 156, 156, FILE_SIZE + 52]
    assert TimerLog(FakeDisk(), DIRECTORY, FILE_SIZE).aligned(100) == 0


def test_a_file_that_is_short_or_missing_is_damage(disk: FakeDisk) -> None:
    filled(disk, 8)
    del disk.files[DIRECTORY / f"{FILE_SIZE:020d}"]
    with pytest.raises(DamagedLog):
        opened(disk)
    disk = FakeDisk()
    disk.open(DIRECTORY / ("0" * 20), 100)
    with pytest.raises(FileCut):
        opened(disk)


def test_a_log_without_files_makes_none_by_being_looked_at(disk: FakeDisk) -> None:
    log = opened(disk)
    assert log.is_empty
    assert (log.end, log.base, log.last_before(10), log.unit(0)) == (0, 0, None, None)
    assert log.files(0) == []
    log.check_whole()
    assert disk.files == {}


def test_a_file_that_was_cut_is_not_written(disk: FakeDisk) -> None:
    log, _ = filled(disk, 1)
    log.check_whole()
    disk.files[DIRECTORY / ("0" * 20)].was_cut = True
    with pytest.raises(FileCut):
        log.check_whole()


def test_the_files_to_sync_are_those_behind_a_place() -> None:
    log, _ = filled(FakeDisk(), 8)
    assert (len(log.files(0)), len(log.files(FILE_SIZE)), len(log.files(log.end))) == (3, 2, 0)
    log.reset()
    assert (log.is_empty, log.end) == (True, 0)


def test_the_checkpoint_is_seven_numbers_and_the_file_a_page() -> None:
    assert format_timer_checkpoint(CHECKPOINT) == pack(">qqqqqqq", 1_000, 52, 3, 4, 5, 6, 7)
    content = format_timer_checkpoint_file(CHECKPOINT)
    assert len(content) == 4096
    assert parse_timer_checkpoint(content) == CHECKPOINT


@each_case(b"", b"x" * 55, pack(">qqqqqqq", 1, -1, 0, 0, 0, 0, 0))
def test_a_file_that_is_missing_short_or_impossible_knows_nothing(content: bytes) -> None:
    assert parse_timer_checkpoint(content) == TimerCheckpoint()
