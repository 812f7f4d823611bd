"""The fakes of disk and clock."""

import errno
from pathlib import Path
from random import Random

import pytest

from cases import each_case
from orbitmq.errors import StoreError
from orbitmq.testing.clock import START_MS, FakeClock
from orbitmq.testing.fake_disk import SECTOR_SIZE, FakeDisk, PowerCut

FILE = Path("/store/commitlog/0")
SIZE = 4 * SECTOR_SIZE


def written(disk, content=b"x", *, is_synced=False):
    file = disk.open(FILE, SIZE)
    file.buffer[: len(content)] = content
    if is_synced:
        file.sync()
    return file


def survivors(disk, count=200):
    """Return what many power cuts leave of the file, each one time; None where nothing is left."""
    found = set()
    for seed in range(count):
        after = disk.after_power_cut(Random(seed))
        found.add(bytes(after.open(FILE, SIZE).buffer) if after.exists(FILE) else None)
    return found


def test_a_file_keeps_its_content_and_takes_the_size_that_it_is_opened_with():
    disk = FakeDisk()
    written(disk, b"abc").close()
    assert disk.exists(FILE)
    assert disk.size(FILE) == SIZE
    assert disk.read(FILE) == b"abc" + bytes(SIZE - 3)
    assert bytes(disk.open(FILE, 2).buffer) == b"ab"
    assert bytes(disk.open(FILE, 4).buffer) == b"ab\0\0"
    assert disk.read(Path("/store/nothing")) == b""
    assert not disk.exists(Path("/store/nothing"))


def test_names_are_those_in_the_directory_itself():
    disk = FakeDisk()
    for path in ("/store/commitlog/1", "/store/commitlog/0", "/store/consumequeue/t/0", "/other/0"):
        disk.write(Path(path), b"")
    assert disk.names(Path("/store")) == ["commitlog", "consumequeue"]
    assert disk.names(Path("/store/commitlog")) == ["0", "1"]


def test_removing_a_directory_removes_what_is_in_it():
    disk = FakeDisk()
    for path in ("/store/a/1", "/store/a/2", "/store/ab"):
        disk.write(Path(path), b"")
    disk.remove(Path("/store/a"))
    assert list(disk.files) == [Path("/store/ab")]
    disk.remove(Path("/store/ab"))
    assert disk.files == {}


def test_a_power_cut_leaves_what_was_synced_and_any_of_the_other_sectors():
    disk = FakeDisk()
    file = written(disk, b"old", is_synced=True)
    file.buffer[:3] = b"new"
    file.buffer[SECTOR_SIZE] = 1
    file.buffer[-1] = 1
    found = survivors(disk)
    assert len(found) == 2**3
    assert {content[:3] for content in found} == {b"old", b"new"}
    assert {content[SECTOR_SIZE : 3 * SECTOR_SIZE].count(1) for content in found} == {0, 1}


def test_a_file_that_was_never_synced_may_be_gone_with_its_name():
    disk = FakeDisk()
    written(disk)
    assert survivors(disk) == {None, b"x" + bytes(SIZE - 1), bytes(SIZE)}


def test_a_small_file_is_synced_when_it_is_written():
    disk = FakeDisk()
    disk.write(FILE, b"1")
    disk.write(FILE, b"22")
    for seed in range(20):
        assert disk.after_power_cut(Random(seed)).read(FILE) == b"22"


def test_kill_leaves_everything_but_makes_nothing_durable():
    disk = FakeDisk(capacity=7)
    written(disk)
    after = disk.after_kill()
    assert after.read(FILE) == disk.read(FILE)
    assert after.files[FILE].durable is None
    assert (after.capacity, disk.after_power_cut(Random(0)).capacity) == (7, 7)


def test_room_is_counted_by_sectors_once():
    disk = FakeDisk(capacity=3 * SECTOR_SIZE)
    file = disk.open(FILE, SIZE)
    file.reserve(1, SECTOR_SIZE)
    assert disk.capacity == SECTOR_SIZE
    file.reserve(0, 2 * SECTOR_SIZE)
    assert disk.capacity == SECTOR_SIZE
    file.blank(2 * SECTOR_SIZE, SECTOR_SIZE)
    assert disk.capacity == 0
    with pytest.raises(OSError, match="No space left") as caught:
        file.reserve(SIZE - 1, 1)
    assert caught.value.errno == errno.ENOSPC
    assert disk.capacity == 0


def test_blank_and_zero_from_write_zeros():
    file = written(FakeDisk(), b"x" * SIZE)
    file.blank(1, 2)
    assert bytes(file.buffer[:4]) == b"x\0\0x"
    file.zero_from(3)
    assert bytes(file.buffer) == b"x" + bytes(SIZE - 1)


OPERATIONS = {
    "open": lambda disk: disk.open(FILE, SIZE),
    "reserve": lambda disk: disk.open(FILE, SIZE).reserve(0, 1),
    "sync": lambda disk: disk.open(FILE, SIZE).sync(),
    "zero": lambda disk: disk.open(FILE, SIZE).zero_from(0),
    "write": lambda disk: disk.write(FILE, b""),
    "remove": lambda disk: disk.remove(FILE),
}


@each_case(*OPERATIONS)
def test_an_operation_fails_until_its_failure_is_taken_out(operation):
    disk = FakeDisk()
    disk.failures[operation] = OSError(errno.EIO, "broken")
    for _ in range(2):
        with pytest.raises(OSError, match="broken"):
            OPERATIONS[operation](disk)
    del disk.failures[operation]
    OPERATIONS[operation](disk)


@each_case(*OPERATIONS)
def test_the_power_goes_at_the_operation_with_the_number_that_was_asked_for(operation):
    disk = FakeDisk()
    OPERATIONS[operation](disk)
    again = FakeDisk()
    again.cut_at = disk.operation_count
    with pytest.raises(PowerCut, match=operation):
        OPERATIONS[operation](again)
    later = FakeDisk()
    later.cut_at = disk.operation_count + 1
    OPERATIONS[operation](later)


def test_a_lock_is_held_by_one_until_it_is_closed():
    disk = FakeDisk()
    lock = disk.lock(Path("/store/lock"))
    with pytest.raises(StoreError, match="/store is in use by another broker: lock is locked"):
        disk.lock(Path("/store/lock"))
    lock.close()
    disk.lock(Path("/store/lock"))


def cut_short(act):
    """Return a disk whose power went in the middle of an operation on a file that was synced before."""
    disk = FakeDisk()
    disk.write(FILE, b"old")
    disk.cut_at = disk.operation_count + 1
    with pytest.raises(PowerCut):
        act(disk)
    return disk


def test_a_write_that_was_cut_short_leaves_the_old_content_the_new_or_a_mixture():
    disk = cut_short(lambda disk: disk.write(FILE, b"longer"))
    found = {disk.after_power_cut(Random(seed)).read(FILE) for seed in range(50)}
    assert found == {b"old", b"lon", b"longer", b"old\0\0\0"}


def test_a_removal_that_was_cut_short_happened_or_not():
    disk = cut_short(lambda disk: disk.remove(FILE.parent))
    for crash in (disk.after_power_cut, disk.after_kill):
        assert {crash(Random(seed)).exists(FILE) for seed in range(20)} == {True, False}
    assert disk.after_kill().exists(FILE)


def test_a_move_that_was_cut_short_happened_or_not():
    target = FILE.with_name("1")
    disk = cut_short(lambda disk: disk.move(FILE, target))
    for crash in (disk.after_power_cut, disk.after_kill):
        found = {(disk.exists(FILE), disk.exists(target)) for disk in (crash(Random(seed)) for seed in range(20))}
        assert found == {(True, False), (False, True)}
    assert disk.after_kill().exists(FILE)


def test_time_stands_still_until_it_is_moved():
    clock = FakeClock()
    assert (clock(), clock()) == (START_MS, START_MS)
    assert clock.advance(5) == START_MS + 5 == clock()


def test_time_does_not_run_backwards():
    with pytest.raises(ValueError, match="backwards"):
        FakeClock().advance(-1)


def test_it_can_be_set_back():
    clock = FakeClock(1_000)
    clock.set(400)
    assert clock() == 400
