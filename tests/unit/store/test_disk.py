"""The file-system seam: the real disk and the fake one keep the same contract."""

import errno
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from orbitmq.errors import StoreError
from orbitmq.store.disk import LocalDisk
from orbitmq.testing.fake_disk import FakeDisk, PowerCut


@pytest.fixture(params=["local", "fake"])
def disk(request):
    return LocalDisk() if request.param == "local" else FakeDisk()


def test_a_new_file_is_zeros_of_its_size(disk, tmp_path):
    file = disk.open(tmp_path / "a" / "b" / "file", 8192)
    assert bytes(file.buffer[:]) == bytes(8192)
    assert disk.size(tmp_path / "a" / "b" / "file") == 8192
    file.close()


def test_content_is_there_when_the_file_is_opened_again(disk, tmp_path):
    file = disk.open(tmp_path / "file", 4096)
    file.reserve(0, 100)
    file.buffer[10:15] = b"hello"
    file.sync()
    file.close()
    again = disk.open(tmp_path / "file", 4096)
    assert bytes(again.buffer[10:15]) == b"hello"
    again.close()


def test_a_short_file_is_brought_to_its_size(disk, tmp_path):
    disk.write(tmp_path / "file", b"abc")
    file = disk.open(tmp_path / "file", 4096)
    assert bytes(file.buffer[:5]) == b"abc\0\0"
    assert disk.size(tmp_path / "file") == 4096
    file.close()


def test_the_rest_of_a_file_is_zeroed_under_its_mapping(disk, tmp_path):
    file = disk.open(tmp_path / "file", 12288)
    file.buffer[:] = b"x" * 12288
    file.zero_from(5000)
    assert bytes(file.buffer[:]) == b"x" * 5000 + bytes(7288)
    assert disk.size(tmp_path / "file") == 12288
    file.close()


def test_zeroing_from_within_a_page_leaves_nothing_behind(disk, tmp_path):
    file = disk.open(tmp_path / "file", 12288, is_one_of_many=True)
    file.buffer[:20] = b"x" * 20
    file.zero_from(7)
    assert bytes(file.buffer[:]) == b"x" * 7 + bytes(12281)
    file.close()


def test_blanking_writes_zeros_and_keeps_room(disk, tmp_path):
    file = disk.open(tmp_path / "file", 1 << 21)
    file.buffer[:] = b"x" * (1 << 21)
    file.blank(100, 1 << 20)
    assert bytes(file.buffer[:]) == b"x" * 100 + bytes(1 << 20) + b"x" * ((1 << 20) - 100)
    file.close()


def test_small_files_are_written_whole(disk, tmp_path):
    path = tmp_path / "new" / "file"
    assert not disk.exists(path)
    assert disk.read(path) == b""
    disk.write(path, b"long content")
    disk.write(path, b"short")
    assert disk.exists(path)
    assert disk.read(path) == b"short"


def test_names_are_sorted_and_a_missing_directory_has_none(disk, tmp_path):
    assert disk.names(tmp_path / "nothing") == []
    disk.write(tmp_path / "b", b"1")
    disk.write(tmp_path / "a" / "c", b"1")
    assert disk.names(tmp_path) == ["a", "b"]


def test_files_and_directories_are_removed(disk, tmp_path):
    disk.write(tmp_path / "file", b"1")
    disk.write(tmp_path / "directory" / "inner" / "file", b"1")
    disk.remove(tmp_path / "file")
    disk.remove(tmp_path / "file")
    disk.remove(tmp_path / "directory")
    assert disk.names(tmp_path) == []


def test_a_lock_keeps_others_out_until_it_is_closed(disk, tmp_path):
    lock = disk.lock(tmp_path / "store" / "lock")
    with pytest.raises(StoreError, match="in use by another broker"):
        disk.lock(tmp_path / "store" / "lock")
    lock.close()
    disk.lock(tmp_path / "store" / "lock").close()


LOCK_AS_JAVA_DOES = """
import fcntl, sys
try:
    fcntl.lockf(open(sys.argv[1], "r+"), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
except OSError:
    sys.exit(7)
"""


def test_the_lock_is_the_one_that_java_takes(tmp_path):
    def java():
        return subprocess.run([sys.executable, "-c", LOCK_AS_JAVA_DOES, tmp_path / "lock"], check=False).returncode

    lock = LocalDisk().lock(tmp_path / "lock")
    (tmp_path / "lock").read_bytes()  # a classic POSIX lock would go when any descriptor of the file is closed
    assert java() == 7
    lock.close()
    assert java() == 0


def test_a_slice_that_is_still_alive_does_not_keep_a_file_open(tmp_path):
    file = LocalDisk().open(tmp_path / "file", 4096)
    view = memoryview(file.buffer)[:4]
    file.close()
    assert bytes(view) == bytes(4)


@pytest.mark.parametrize("is_one_of_many", [True, False])
def test_syncing_a_file_that_was_closed_and_removed_meanwhile_is_no_failure(tmp_path, is_one_of_many):
    file = LocalDisk().open(tmp_path / "file", 4096, is_one_of_many=is_one_of_many)
    file.close()
    LocalDisk().remove(tmp_path / "file")
    file.sync()


def test_one_file_of_many_works_the_same_without_a_descriptor_of_its_own(tmp_path):
    def descriptors():
        return len(os.listdir("/proc/self/fd"))

    before = descriptors()
    file = LocalDisk().open(tmp_path / "file", 4096, is_one_of_many=True)
    assert descriptors() == before + 1  # the mapping's
    file.reserve(0, 4096)
    file.buffer[:3] = b"abc"
    file.sync()
    file.zero_from(1)
    assert bytes(file.buffer[:3]) == b"a\0\0"
    file.close()
    assert descriptors() == before


def test_a_failing_sync_is_reported(tmp_path, monkeypatch):
    file = LocalDisk().open(tmp_path / "file", 4096)

    def fail(_descriptor):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", fail)
    with pytest.raises(OSError, match="Input/output error"):
        file.sync()
    file.close()


def test_a_segment_that_cannot_be_mapped_is_closed_again(tmp_path):
    with pytest.raises(ValueError, match="mmap"):
        LocalDisk().open(tmp_path / "file", 0)


def test_a_sparse_segment_takes_no_room_until_it_is_reserved(tmp_path):
    file = LocalDisk().open(tmp_path / "file", 1 << 30)
    assert (tmp_path / "file").stat().st_blocks == 0
    file.reserve(0, 1 << 20)
    assert (tmp_path / "file").stat().st_blocks >= 2048
    file.close()


def test_a_full_fake_disk_says_so():
    disk = FakeDisk(capacity=1024)
    file = disk.open(Path("/file"), 4096)
    file.reserve(0, 1024)
    file.reserve(100, 50)
    with pytest.raises(OSError, match="No space left"):
        file.reserve(1024, 1)


def test_a_power_cut_keeps_what_was_synced_and_any_part_of_the_rest():
    outcomes = set()
    for seed in range(60):
        disk = FakeDisk()
        file = disk.open(Path("/file"), 1536)
        file.buffer[:512] = b"a" * 512
        file.sync()
        file.buffer[512:] = b"b" * 1024
        outcomes.add(disk.after_power_cut(Random(seed)).read(Path("/file")))
    a, b, zeros = b"a" * 512, b"b" * 512, bytes(512)
    assert outcomes == {a + one + two for one in (b, zeros) for two in (b, zeros)}


def test_a_file_that_was_never_synced_may_lose_its_name():
    disk = FakeDisk()
    disk.open(Path("/file"), 512)
    assert {disk.after_power_cut(Random(seed)).exists(Path("/file")) for seed in range(20)} == {True, False}


def test_the_power_goes_at_the_operation_that_was_asked_for():
    disk = FakeDisk()
    disk.cut_at = 2
    disk.open(Path("/file"), 512)
    with pytest.raises(PowerCut):
        disk.open(Path("/other"), 512)
    assert disk.names(Path("/")) == ["file"]


def open_descriptors():
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("is_one_of_many", [False, True])
def test_a_closed_file_gives_its_descriptors_back(tmp_path, is_one_of_many):
    before = open_descriptors()
    file = LocalDisk().open(tmp_path / "file", 4096, is_one_of_many=is_one_of_many)
    assert open_descriptors() > before
    file.close()
    assert open_descriptors() == before


def test_a_removal_is_synced_in_the_directory_that_held_the_name(tmp_path, monkeypatch):
    synced = []
    disk = LocalDisk()
    disk.write(tmp_path / "topic" / "file", b"1")
    monkeypatch.setattr("orbitmq.store.disk.sync_directory", synced.append)
    disk.remove(tmp_path / "topic" / "file")
    disk.remove(tmp_path / "topic")
    assert synced == [tmp_path / "topic", tmp_path]


def test_room_that_was_claimed_behind_the_data_stays_when_nothing_but_a_hole_is_zeroed(tmp_path):
    file = LocalDisk().open(tmp_path / "file", 1 << 20)
    file.buffer[0] = 1
    file.sync()
    inode, cuts = os.stat(tmp_path / "file"), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "ftruncate", lambda *arguments: cuts.append(arguments))
        file.zero_from(1)
    assert cuts == []
    assert os.stat(tmp_path / "file").st_blocks == inode.st_blocks
    file.close()
