"""The quarantine: bytes that are cut off a log are there, with where they lay and why they went."""

import errno
import json
from pathlib import Path

import pytest

from cases import each_case
from orbitmq.errors import StoreError
from orbitmq.store.local_disk import LocalDisk
from orbitmq.store.log.segment import Segment
from orbitmq.store.quarantine import REPLACED, REPLACED_TOLD_MS, Quarantine
from orbitmq.testing import FakeClock
from orbitmq.testing.fake_disk import FakeDisk

SIZE = 16384


@pytest.fixture(params=["local", "fake"])
def disk(request):
    return LocalDisk() if request.param == "local" else FakeDisk()


def segment_of(disk, root, content=b""):
    segment = Segment(disk, root / "commitlog", 3 * SIZE, SIZE, SIZE)
    segment.buffer[: len(content)] = content
    return segment


def content_of(disk, path):
    return disk.read(path)


def test_a_tail_is_copied_up_to_its_last_byte_and_the_segment_stays(disk, tmp_path, caplog):
    segment = segment_of(disk, tmp_path, b"kept" + b"torn\0tail\0\0")
    quarantine = Quarantine(disk, tmp_path / "quarantine", "commitlog", lambda: 5)
    taken = quarantine.take_tail(segment, segment.base + 4, "magic 0x1")
    assert (taken.offset, taken.length, taken.reason) == (segment.base + 4, 9, "magic 0x1")
    assert content_of(disk, taken.path) == b"torn\0tail"
    assert bytes(segment.buffer[:13]) == b"kepttorn\0tail"
    note = json.loads(disk.read(taken.path.with_name(taken.path.name + ".json")))
    assert note == {"log": "commitlog", "offset": segment.base + 4, "length": 9, "reason": "magic 0x1", "atMs": 5}
    assert f"cut 9 bytes off the commitlog at {segment.base + 4} (magic 0x1)" in caplog.text
    segment.close()


def test_records_that_another_master_has_replaced_are_told_for_a_day_and_are_no_warning(disk, tmp_path):
    segment = segment_of(disk, tmp_path, b"keptnever acknowledged")
    clock = FakeClock(1_700_000_000_000)
    quarantine = Quarantine(disk, tmp_path / "quarantine", "commitlog", clock)
    quarantine.take_tail(segment, segment.base + 4, REPLACED)
    assert "18 bytes of the commitlog that this broker alone had were replaced" in (quarantine.replaced() or "")
    assert (quarantine.warning(), quarantine.size()) == (None, 18)
    clock.advance(REPLACED_TOLD_MS)
    again = Quarantine(disk, tmp_path / "quarantine", "commitlog", clock)
    assert (again.warning(), again.replaced(), again.size()) == (None, None, 18)
    segment.close()


@pytest.mark.parametrize("size", [9, 3 * 1024 * 1024])
def test_starts_that_are_interrupted_keep_the_same_bytes_once(disk, tmp_path, size):
    segment = Segment(disk, tmp_path / "commitlog", 0, 4 * 1024 * 1024, 4096)
    segment.buffer[7 : 7 + size] = b"x" * size
    quarantine = Quarantine(disk, tmp_path / "quarantine", "commitlog")
    first, again = (quarantine.take_tail(segment, 7, "why") for _ in range(2))
    assert again == first
    assert quarantine.size() == size
    assert len(disk.names(tmp_path / "quarantine")) == 2
    segment.buffer[7 + size - 1] = ord("y")
    assert quarantine.take_tail(segment, 7, "why").path != first.path
    assert quarantine.size() == 2 * size
    segment.close()


def test_a_copy_that_was_interrupted_is_begun_again(tmp_path):
    disk = FakeDisk()
    segment = segment_of(disk, tmp_path, b"torn")
    quarantine = Quarantine(disk, tmp_path / "quarantine", "commitlog")
    for operation in ("sync", "move"):
        disk.failures = {operation: OSError(errno.EIO, "Input/output error")}
        with pytest.raises(StoreError):
            quarantine.take_tail(segment, segment.base, "why")
    disk.failures = {}
    taken = quarantine.take_tail(segment, segment.base, "why")
    assert content_of(disk, taken.path) == b"torn"
    assert disk.names(tmp_path / "quarantine") == [taken.path.name, f"{taken.path.name}.json"]


def test_what_is_kept_is_a_warning(disk, tmp_path):
    segment = segment_of(disk, tmp_path, b"torn")
    quarantine = Quarantine(disk, tmp_path / "quarantine", "commitlog")
    assert quarantine.warning() is None
    taken = quarantine.take_tail(segment, segment.base, "why")
    assert quarantine.warning() == f"{taken.path.parent} keeps 4 bytes that recovery has cut off the commitlog"
    disk.write(taken.path.parent / "salvaged" / "commitlog-1", b"brought back")
    assert quarantine.size() == 4
    segment.close()


def test_a_whole_segment_is_moved(disk, tmp_path):
    segment = segment_of(disk, tmp_path, b"no record")
    taken = Quarantine(disk, tmp_path / "quarantine", "commitlog").take_segment(segment, "why")
    assert (taken.offset, taken.length) == (segment.base, 9)
    assert content_of(disk, taken.path)[:9] == b"no record"
    assert not disk.exists(segment.path)


def test_zeros_are_nothing_to_keep(disk, tmp_path):
    segment = segment_of(disk, tmp_path, b"kept")
    quarantine = Quarantine(disk, tmp_path / "quarantine", "commitlog")
    assert quarantine.take_tail(segment, segment.base + 4, "why") is None
    assert quarantine.take_segment(segment_of(disk, tmp_path / "other"), "why") is None
    assert disk.names(tmp_path / "quarantine") == []
    segment.close()


def test_what_was_kept_before_is_not_written_over(disk, tmp_path):
    segment = segment_of(disk, tmp_path, b"kept" + b"first")
    quarantine = Quarantine(disk, tmp_path / "quarantine", "commitlog")
    first = quarantine.take_tail(segment, segment.base + 4, "why")
    segment.buffer[4:10] = b"second"
    second = quarantine.take_tail(segment, segment.base + 4, "why")
    assert (content_of(disk, first.path), content_of(disk, second.path)) == (b"first", b"second")
    segment.close()


@each_case("open", "reserve", "sync", "move", "write")
def test_a_disk_that_does_not_take_the_copy_ends_the_start(operation):
    disk = FakeDisk()
    segment = segment_of(disk, Path("/store"), b"kept" + b"torn")
    disk.failures[operation] = OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(StoreError, match=r"4 bytes of the commitlog at .* Nothing was cut; make room and start again"):
        Quarantine(disk, Path("/store/quarantine"), "commitlog").take_tail(segment, segment.base + 4, "why")
    assert bytes(segment.buffer[:8]) == b"kepttorn"


def test_a_segment_that_cannot_be_moved_stays():
    disk = FakeDisk()
    segment = segment_of(disk, Path("/store"), b"torn")
    disk.failures["move"] = OSError(errno.EROFS, "Read-only file system")
    with pytest.raises(StoreError, match="Read-only file system"):
        Quarantine(disk, Path("/store/quarantine"), "commitlog").take_segment(segment, "why")
    assert disk.exists(segment.path)


@each_case(0, 100, 511)
def test_one_byte_behind_the_end_is_moved_aside(place):
    disk = FakeDisk()
    segment = Segment(disk, Path("/log"), 1024, 512, 512)
    segment.buffer[place] = 7
    taken = Quarantine(disk, Path("/quarantine"), "log").take_tail(segment, 1024 + place, "damage")
    assert taken is not None
    assert (taken.length, disk.read(taken.path)) == (1, b"\7")


def test_nothing_behind_the_end_is_not_moved_aside():
    disk = FakeDisk()
    segment = Segment(disk, Path("/log"), 1024, 512, 512)
    segment.buffer[99] = 7
    assert Quarantine(disk, Path("/quarantine"), "log").take_tail(segment, 1024 + 100, "damage") is None
