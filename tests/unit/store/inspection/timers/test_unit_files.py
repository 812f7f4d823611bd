from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.store.disk import LocalDisk
from orbitmq.store.inspection.layout import log_files
from orbitmq.store.inspection.timers.unit_files import UnitFiles
from orbitmq.store.timers.log import TimerLog
from orbitmq.store.timers.units import UNIT_SIZE

FILE_SIZE = 5 * UNIT_SIZE
"""Four units, and a blank end."""


@pytest.fixture
def files(tmp_path: Path) -> UnitFiles:
    log = TimerLog(LocalDisk(), tmp_path, FILE_SIZE)
    for number in range(6):
        log.append(-1, 1, 1_000, number, (number * 10, 10, 7))
    log.close()
    return UnitFiles(log_files(tmp_path), FILE_SIZE)


def test_units_come_in_order_over_the_blank_end_of_a_file(files: UnitFiles) -> None:
    with files:
        walked = list(files.walk())
    assert [unit.delay_ms for _, unit in walked] == list(range(6))
    assert [position for position, _ in walked][3:5] == [3 * UNIT_SIZE, FILE_SIZE]
    assert files.end == FILE_SIZE + 2 * UNIT_SIZE


def test_a_place_has_a_whole_unit_or_none(files: UnitFiles) -> None:
    with files:
        assert (files.unit(FILE_SIZE) or files.unit(0)) == files.unit(FILE_SIZE)
        places = (-1, 1, 4 * UNIT_SIZE, FILE_SIZE + 2 * UNIT_SIZE, 2 * FILE_SIZE)
        assert [files.unit(place) for place in places] == [None] * 5


def test_bytes_behind_an_end_are_counted_to_the_last_that_is_no_zero(files: UnitFiles) -> None:
    with files:
        assert files.bytes_behind(FILE_SIZE + 2 * UNIT_SIZE) == 0
        assert 0 < files.bytes_behind(FILE_SIZE + UNIT_SIZE) <= UNIT_SIZE


def test_there_may_be_no_files() -> None:
    with UnitFiles([], FILE_SIZE) as files:
        assert (list(files.walk()), files.end, files.unit(0), files.bytes_behind(0)) == ([], 0, None, 0)
