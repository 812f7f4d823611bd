from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from cases import each_case
from orbitmq.controller.consensus.log_file import RaftLogFile
from orbitmq.errors import LogDiverged
from orbitmq.raft import Entry, HardState, Position, Saved, Snapshot
from orbitmq.testing.fake_disk import FakeDisk, PowerCut

ROOT = Path("/raft")


def entries(first: int, *terms: int) -> tuple[Entry, ...]:
    return tuple(Entry(index, term, b"e%d.%d" % (index, term)) for index, term in enumerate(terms, first))


SNAPSHOT = Snapshot(Position(4, 2), b"state")
STEPS: tuple[tuple[Any, ...], ...] = (
    ("save", HardState(1, 2, 0), (), None),
    ("save", None, entries(1, 1, 1, 1), None),
    ("save", HardState(2, 0, 1), entries(2, 2, 2), None),
    ("save", HardState(2, 3, 2), (), None),
    ("save", None, entries(4, 2, 2, 2), None),
    ("compact", SNAPSHOT, 3),
    ("save", HardState(3, 1, 4), entries(6, 3), None),
    ("save", HardState(4, 1, 9), (), Snapshot(Position(9, 3), b"of a leader")),
    ("save", None, entries(10, 4), None),
)


def after(count: int) -> Saved:
    """What a disk in memory has after so many steps."""
    state, snapshot, log = HardState(), None, dict[int, Entry]()
    for step in STEPS[:count]:
        if step[0] == "compact":
            snapshot = step[1]
            log = {index: entry for index, entry in log.items() if index > step[2]}
            continue
        state = step[1] or state
        if step[3] is not None:
            snapshot, log = step[3], {}
        if step[2]:
            log = {index: entry for index, entry in log.items() if index < step[2][0].index}
            log |= {entry.index: entry for entry in step[2]}
    return Saved(state, snapshot, tuple(log[index] for index in sorted(log)))


def act(file: RaftLogFile, step: tuple[Any, ...]) -> None:
    getattr(file, step[0])(*step[1:])


def opened(disk: FakeDisk, file_size: int = 400) -> tuple[RaftLogFile, Saved]:
    file = RaftLogFile(disk, ROOT, file_size)
    return file, file.load()


def test_a_first_start_has_nothing() -> None:
    assert opened(FakeDisk())[1] == Saved()


@each_case(1, 150, 400, 100_000)
def test_each_step_is_there_after_a_restart(file_size: int) -> None:
    disk = FakeDisk()
    file, _ = opened(disk, file_size)
    for count, step in enumerate(STEPS, 1):
        act(file, step)
        assert opened(disk.after_kill(), file_size)[1] == after(count)


@each_case(1, 400)
def test_after_a_power_cut_the_disk_has_what_was_confirmed_and_perhaps_the_step_under_way(file_size: int) -> None:
    for cut_at in range(1, 1_000):
        disk = FakeDisk()
        file, _ = opened(disk, file_size)
        disk.cut_at = disk.operation_count + cut_at
        confirmed = 0
        try:
            for step in STEPS:
                act(file, step)
                confirmed += 1
        except PowerCut:
            pass
        for seed in range(3):
            survivor = disk.after_power_cut(Random(seed))
            again, found = opened(survivor, file_size)
            assert found in (after(confirmed), after(confirmed + 1)), (cut_at, confirmed)
            act(again, ("save", HardState(77, 0, 0), (), None))
            assert opened(survivor.after_power_cut(Random(seed)), file_size)[1].hard_state == HardState(77, 0, 0)
        if confirmed == len(STEPS):
            return
    raise AssertionError("the steps take fewer operations")


def test_a_damaged_record_before_whole_ones_is_refused() -> None:
    disk = FakeDisk()
    file, _ = opened(disk, 100_000)
    for step in STEPS[:4]:
        act(file, step)
    (path,) = [path for path in disk.files if path.name.startswith("log-")]
    content = disk.read(path)
    at = content.index(b"e2.1")
    damaged = content[:at] + b"E" + content[at + 1 :]
    disk.write(path, damaged)
    with pytest.raises(LogDiverged, match="whole records follow"):
        opened(disk, 100_000)


def test_files_without_a_whole_record_are_refused() -> None:
    disk = FakeDisk()
    file, _ = opened(disk)
    act(file, STEPS[0])
    disk.write(ROOT / "log-1", b"\1" * 100)
    with pytest.raises(LogDiverged, match="begins with a whole record"):
        opened(disk)


def test_a_file_that_a_full_disk_does_not_take_is_removed_and_written_again() -> None:
    disk = FakeDisk()
    file, _ = opened(disk)
    act(file, STEPS[0])
    before = disk.names(ROOT)
    disk.failures["sync"] = OSError("full")
    for _ in range(3):
        with pytest.raises(OSError, match="full"):
            file.rewrite()
    assert disk.names(ROOT) == before
    disk.failures.clear()
    file.rewrite()
    assert opened(disk)[1] == after(1)


def test_the_mark_of_the_first_file_is_written_later_where_the_disk_did_not_take_it() -> None:
    disk = FakeDisk()
    file, _ = opened(disk)
    disk.failures["write"] = OSError("full")
    with pytest.raises(OSError, match="full"):
        act(file, STEPS[0])
    disk.failures.clear()
    file.rewrite()
    assert "begun" in disk.names(ROOT)
