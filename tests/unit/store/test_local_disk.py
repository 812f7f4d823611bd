"""The file-system seam: real and fake disk, `syncfs`, and how full a disk is."""

from __future__ import annotations

import errno
import fcntl
import os
import platform
import stat
import subprocess
import sys
from pathlib import Path
from random import Random
from threading import Event
from types import SimpleNamespace

import pytest

from cases import each_case
from children import environment
from orbitmq.errors import DescriptorShortage, NotWritten, StoreError
from orbitmq.store import bulk_sync, local_disk
from orbitmq.store.bulk_sync import kernel_version, sync_file_system, tells_of_lost_writes
from orbitmq.store.disk_usage import DiskUsage, ask_aside, disk_usage
from orbitmq.store.local_disk import LocalDisk, LocalFile
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
    file.write(0, b"x" * 20)
    file.zero_from(7)
    assert file.read(0, 12288) == b"x" * 7 + bytes(12281)
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
    fcntl.lockf(open(sys.argv[1], "r+"), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, int(sys.argv[2]))
except OSError:
    sys.exit(7)
"""


def java_locks(path, byte):
    """Return 0 when another process can lock one byte of a file, 7 when it is refused."""
    command = [sys.executable, "-c", LOCK_AS_JAVA_DOES, path, str(byte)]
    return subprocess.run(command, check=False).returncode


@pytest.fixture(params=["of the open file", "of the process"])
def kind_of_lock(request, monkeypatch):
    """Locks as Linux has them, and as systems without locks of open files do."""
    if request.param == "of the process":
        monkeypatch.delattr(fcntl, "F_OFD_SETLK", raising=False)
    return request.param


@pytest.mark.real
@pytest.mark.usefixtures("kind_of_lock")
def test_the_lock_is_on_the_first_byte_alone_as_javas_is(tmp_path):
    path = tmp_path / "store" / "lock"
    lock = LocalDisk().lock(path)
    assert [java_locks(path, byte) for byte in (0, 1)] == [7, 0]
    lock.close()
    assert java_locks(path, 0) == 0
    assert path.read_bytes() == b"lock"


def test_a_directory_in_use_stays_so_when_the_file_lock_is_removed(tmp_path):
    lock = LocalDisk().lock(tmp_path / "lock")
    (tmp_path / "lock").unlink()
    with pytest.raises(StoreError, match="in use by another broker"):
        LocalDisk().lock(tmp_path / "lock")
    lock.close()
    LocalDisk().lock(tmp_path / "lock").close()


def test_a_directory_that_cannot_be_locked_is_kept_by_its_file_alone(tmp_path, monkeypatch):
    def refuse(descriptor, operation):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    lock = LocalDisk().lock(tmp_path / "lock")
    with pytest.raises(StoreError, match="lock is locked"):
        LocalDisk().lock(tmp_path / "lock")
    lock.close()


@pytest.mark.real
def test_the_lock_stays_when_another_descriptor_of_its_file_is_closed(tmp_path):
    lock = LocalDisk().lock(tmp_path / "lock")
    (tmp_path / "lock").read_bytes()  # a classic POSIX lock would go with it
    assert java_locks(tmp_path / "lock", 0) == 7
    lock.close()


@pytest.mark.real
@pytest.mark.usefixtures("kind_of_lock")
def test_a_lock_that_is_refused_leaves_no_descriptor_open(tmp_path):
    holder = subprocess.Popen(
        [sys.executable, "-c", LOCK_AND_HOLD, tmp_path / "lock"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"locked\n"
        before = descriptors_of(tmp_path)
        with pytest.raises(StoreError, match="lock is locked"):
            LocalDisk().lock(tmp_path / "lock")
        assert descriptors_of(tmp_path) == before == []
    finally:
        holder.communicate()


LOCK_AND_HOLD = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
print("locked", flush=True)
sys.stdin.read()
"""


def descriptors_of(directory):
    """Return the paths below a directory that this process has open, sorted."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            path = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:  # the listing's own
            continue
        if path.startswith(str(directory)):
            found.append(path)
    return sorted(found)


def test_a_slice_that_is_still_alive_does_not_keep_a_file_open(tmp_path):
    file = LocalDisk().open(tmp_path / "file", 4096)
    view = memoryview(file.buffer)[:4]
    file.close()
    assert bytes(view) == bytes(4)


@pytest.mark.parametrize("is_one_of_many", [True, False])
def test_syncing_a_file_whose_directory_was_removed_meanwhile_is_no_failure(tmp_path, is_one_of_many):
    file = LocalDisk().open(tmp_path / "topic" / "0" / "file", 4096, is_one_of_many=is_one_of_many)
    LocalDisk().remove(tmp_path / "topic")
    file.sync()
    file.close()


def test_one_file_of_many_takes_a_descriptor_and_no_map(tmp_path):
    path = tmp_path / "file"
    file = LocalDisk().open(path, 4096, is_one_of_many=True)
    file.write(4090, b"abcdef")
    file.sync()
    assert file.read(4090, 3) == b"abc"
    assert descriptors_of(tmp_path) == [str(path)]
    assert str(path) not in Path("/proc/self/maps").read_text()
    file.close()


def test_a_write_that_the_disk_refuses_leaves_nothing_to_be_synced(tmp_path, monkeypatch):
    file = LocalDisk().open(tmp_path / "file", 4096, is_one_of_many=True)

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr("orbitmq.store.local_disk.os.pwrite", refuse)
        with pytest.raises(NotWritten) as caught:
            file.write(0, b"abc")
    assert caught.value.errno == errno.ENOSPC
    file.close()


def test_a_write_is_whole_although_the_system_takes_it_in_parts(tmp_path, monkeypatch):
    file = LocalDisk().open(tmp_path / "file", 4096, is_one_of_many=True)
    pwrite = os.pwrite
    monkeypatch.setattr("orbitmq.store.local_disk.os.pwrite", lambda fd, data, at: pwrite(fd, data[:2], at))
    file.write(7, b"abcde")
    assert file.read(6, 7) == b"\0abcde\0"
    file.close()


def test_what_was_cut_from_outside_reads_as_zeros(tmp_path):
    file = LocalDisk().open(tmp_path / "file", 4096, is_one_of_many=True)
    file.write(0, b"abc")
    os.truncate(tmp_path / "file", 2)
    assert file.read(0, 5) == b"ab\0\0\0"
    file.close()


def test_sizes_tell_of_files_alone_sorted_by_name(disk, tmp_path):
    assert disk.sizes(tmp_path / "nothing") == {}
    disk.write(tmp_path / "b", b"123")
    disk.write(tmp_path / "a", b"1")
    disk.write(tmp_path / "c" / "d", b"1")
    assert list(disk.sizes(tmp_path).items()) == [("a", 1), ("b", 3)]


def small_file(disk, path, content, size=64 * 1024):
    file = disk.open(path, size, is_one_of_many=True)
    file.write(0, content)
    file.close()


@pytest.mark.parametrize("count", [0, 1, 255, 256, 257, 4095, 4096])
def test_the_first_file_is_told_as_what_stands_before_its_zeros(disk, tmp_path, count):
    small_file(disk, tmp_path / "queue" / "0", b"\0" * (count - 1) + b"x" * (count > 0))
    found = disk.first_file(str(tmp_path / "queue"), "0", "1", 64 * 1024)
    assert found == b"\0" * (count - 1) + b"x" * (count > 0)


@pytest.mark.parametrize("at", [4096, 8192, 64 * 1024 - 1])
def test_a_file_with_more_than_a_page_is_not_told(disk, tmp_path, at):
    small_file(disk, tmp_path / "queue" / "0", b"x" + bytes(at - 1) + b"y")
    assert disk.first_file(str(tmp_path / "queue"), "0", "1", 64 * 1024) is None


def test_a_file_that_is_not_the_last_or_of_another_size_is_not_told(disk, tmp_path):
    assert disk.first_file(str(tmp_path / "nothing"), "0", "1", 64 * 1024) is None
    small_file(disk, tmp_path / "queue" / "0", b"x")
    assert disk.first_file(str(tmp_path / "queue"), "0", "1", 64 * 1024) == b"x"
    assert disk.first_file(str(tmp_path / "queue"), "0", "1", 32 * 1024) is None
    assert disk.first_file(str(tmp_path / "queue"), "1", "2", 64 * 1024) is None
    small_file(disk, tmp_path / "queue" / "1", b"x")
    assert disk.first_file(str(tmp_path / "queue"), "0", "1", 64 * 1024) is None
    small_file(disk, tmp_path / "above" / "queue" / "0", b"x")
    assert disk.first_file(str(tmp_path / "above"), "queue", "1", 64 * 1024) is None


@pytest.mark.skipif(not hasattr(os, "O_NOATIME"), reason="other systems note every use")
def test_only_who_owns_a_file_may_look_at_it_unnoticed(tmp_path, monkeypatch):
    disk, flags_seen, open_file = LocalDisk(), [], os.open
    small_file(disk, tmp_path / "queue" / "0", b"x")

    def of_others(path, flags, *arguments):
        flags_seen.append(bool(flags & os.O_NOATIME))
        if flags_seen[-1]:
            raise PermissionError(errno.EPERM, "Operation not permitted")
        return open_file(path, flags, *arguments)

    monkeypatch.setattr(os, "open", of_others)
    assert disk.first_file(str(tmp_path / "queue"), "0", "1", 64 * 1024) == b"x"
    assert flags_seen == [True, False]


def test_where_the_file_system_cannot_tell_of_holes_no_file_is_told(tmp_path, monkeypatch):
    disk = LocalDisk()
    small_file(disk, tmp_path / "queue" / "0", b"x")

    def lseek(descriptor, position, how):
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "lseek", lseek)
    assert disk.first_file(str(tmp_path / "queue"), "0", "1", 64 * 1024) is None


def test_a_bulk_sync_syncs_what_was_written_since(disk, tmp_path, monkeypatch):
    monkeypatch.setattr(local_disk, "tells_of_lost_writes", lambda descriptor: True)
    bulk = disk.bulk_sync(tmp_path / "queues")
    files = [disk.open(tmp_path / "queues" / name, 4096, is_one_of_many=True) for name in "abc"]
    for file in files:
        file.write(0, b"x")
    bulk.run(files)
    bulk.run([])
    bulk.close()


@pytest.fixture
def bulk_synced(monkeypatch):
    """What is synced, in order: `all`, or one file."""
    seen = []
    monkeypatch.setattr(local_disk, "tells_of_lost_writes", lambda descriptor: True)
    monkeypatch.setattr(local_disk, "sync_file_system", lambda descriptor: seen.append("all"))
    monkeypatch.setattr(LocalFile, "sync", lambda file: seen.append(file))
    return seen


def test_the_last_file_is_synced_after_the_file_system_to_empty_the_disks_own_cache(tmp_path, bulk_synced):
    bulk = LocalDisk().bulk_sync(tmp_path)
    files = [LocalDisk().open(tmp_path / name, 4096, is_one_of_many=True) for name in "abc"]
    bulk.run(files)
    assert bulk_synced == ["all", files[2]]


def test_a_file_on_another_file_system_is_synced_on_its_own(tmp_path, bulk_synced, monkeypatch):
    bulk = LocalDisk().bulk_sync(tmp_path)
    files = [LocalDisk().open(tmp_path / name, 4096, is_one_of_many=True) for name in "abc"]
    device = tmp_path.stat().st_dev
    monkeypatch.setattr(LocalFile, "device", property(lambda file: device - (file is files[1])))
    bulk.run(files)
    assert bulk_synced == ["all", files[1], files[2]]


def test_a_failing_bulk_sync_is_reported(tmp_path, bulk_synced, monkeypatch):
    def fail(_descriptor):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(local_disk, "sync_file_system", fail)
    bulk = LocalDisk().bulk_sync(tmp_path)
    with pytest.raises(OSError, match="Input/output error"):
        bulk.run([LocalDisk().open(tmp_path / "a", 4096)])
    assert bulk_synced == []


def test_where_lost_writes_may_go_untold_there_is_no_bulk_sync(tmp_path, monkeypatch):
    asked, closed, close = [], [], os.close

    def closing(descriptor):
        closed.append(descriptor)
        close(descriptor)

    monkeypatch.setattr(local_disk, "tells_of_lost_writes", asked.append)
    monkeypatch.setattr(os, "close", closing)
    assert LocalDisk().bulk_sync(tmp_path / "queues") is None
    assert set(asked) <= set(closed)


@pytest.mark.parametrize("name", ["segment", "small", "lock"])
def test_files_are_no_programs_and_no_other_user_writes_them(tmp_path, name):
    disk = LocalDisk()
    if name == "segment":
        disk.open(tmp_path / name, 4096).close()
    elif name == "small":
        disk.write(tmp_path / name, b"1")
    else:
        disk.lock(tmp_path / name).close()
    assert stat.S_IMODE((tmp_path / name).stat().st_mode) & ~0o644 == 0


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


@pytest.mark.parametrize("is_one_of_many", [False, True])
def test_a_closed_file_gives_its_descriptors_back(tmp_path, is_one_of_many):
    file = LocalDisk().open(tmp_path / "file", 4096, is_one_of_many=is_one_of_many)
    assert descriptors_of(tmp_path) != []
    file.close()
    assert descriptors_of(tmp_path) == []


def test_small_files_and_directories_are_not_kept_open(tmp_path):
    disk = LocalDisk()
    disk.write(tmp_path / "a" / "b", b"1")
    disk.remove(tmp_path / "a" / "b")
    disk.remove(tmp_path / "a")
    assert descriptors_of(tmp_path) == []


def test_a_removal_is_synced_in_the_directory_that_held_the_name(tmp_path, monkeypatch):
    synced = []
    disk = LocalDisk()
    disk.write(tmp_path / "topic" / "file", b"1")
    monkeypatch.setattr("orbitmq.store.local_disk.sync_directory", synced.append)
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


@pytest.fixture
def synced(monkeypatch, tmp_path):
    """Paths of this test whose content or names were synced, in order, by whichever call: clusters run next to it."""
    seen = []
    for name in ("fsync", "fdatasync"):
        real = getattr(os, name)

        def sync(descriptor, real=real):
            path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
            if path.is_relative_to(tmp_path):
                seen.append(path)
            real(descriptor)

        monkeypatch.setattr(os, name, sync)
    return seen


def test_the_first_sync_of_a_new_file_syncs_every_name_that_leads_to_it_and_later_ones_do_not(tmp_path, synced):
    path = tmp_path / "topic" / "0" / "file"
    file = LocalDisk().open(path, 4096)
    file.sync()
    assert synced == [path, tmp_path / "topic" / "0", tmp_path / "topic", tmp_path]
    synced.clear()
    file.sync()
    assert synced == [path]
    file.close()


@pytest.mark.parametrize("is_one_of_many", [False, True])
def test_the_name_of_a_file_that_was_there_is_synced_unless_there_are_thousands(tmp_path, synced, is_one_of_many):
    """A process that was killed may have made it."""
    path = tmp_path / "log" / "file"
    path.parent.mkdir()
    path.write_bytes(bytes(4096))
    file = LocalDisk().open(path, 4096, is_one_of_many=is_one_of_many)
    file.sync()
    file.sync()
    names = [] if is_one_of_many else [path.parent, tmp_path]
    assert synced == [path, *names, path]
    file.close()


def test_a_name_that_could_not_be_synced_is_synced_again(tmp_path, monkeypatch):
    file = LocalDisk().open(tmp_path / "topic" / "file", 4096)
    seen = []

    def fail_once(directory):
        seen.append(directory)
        if len(seen) == 2:
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("orbitmq.store.local_disk.sync_directory", fail_once)
    with pytest.raises(OSError, match="Input/output error"):
        file.sync()
    file.sync()
    assert seen == [tmp_path / "topic", tmp_path, tmp_path]
    file.close()


def test_a_small_file_is_synced_with_the_names_that_are_new(tmp_path, synced):
    path = tmp_path / "a" / "b" / "file"
    LocalDisk().write(path, b"one")
    assert synced == [path, tmp_path / "a" / "b", tmp_path / "a", tmp_path]
    synced.clear()
    LocalDisk().write(path, b"two")
    assert synced == [path]


def test_a_small_file_of_the_same_length_is_written_over_without_a_cut(tmp_path, monkeypatch):
    disk, cuts = LocalDisk(), []
    disk.write(tmp_path / "file", b"one")
    monkeypatch.setattr(os, "ftruncate", lambda *arguments: cuts.append(arguments))
    disk.write(tmp_path / "file", b"two")
    assert (cuts, disk.read(tmp_path / "file")) == ([], b"two")


def test_a_file_of_its_size_is_opened_without_a_cut(tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(bytes(4096))
    cuts = []
    monkeypatch.setattr(os, "ftruncate", lambda *arguments: cuts.append(arguments))
    LocalDisk().open(tmp_path / "file", 4096).close()
    assert cuts == []


def test_where_the_file_system_cannot_tell_holes_everything_is_zeroed(tmp_path, monkeypatch):
    file = LocalDisk().open(tmp_path / "file", 12288)
    file.buffer[:] = b"x" * 12288

    def refuse(*_arguments):
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "lseek", refuse)
    file.zero_from(1)
    assert bytes(file.buffer[:]) == b"x" + bytes(12287)
    file.close()


def test_zeroing_gives_the_rooms_blocks_back_where_data_was(tmp_path):
    file = LocalDisk().open(tmp_path / "file", 1 << 20)
    file.buffer[:] = b"x" * (1 << 20)
    file.sync()
    full = os.stat(tmp_path / "file").st_blocks
    file.zero_from(4096)
    assert os.stat(tmp_path / "file").st_blocks < full
    file.close()


def test_blanking_goes_on_where_the_disk_took_only_a_part(tmp_path, monkeypatch):
    real, written = os.pwrite, []

    def write_some(descriptor, content, at):
        written.append((at, len(content)))
        return real(descriptor, content[:100], at)

    file = LocalDisk().open(tmp_path / "file", 4096)
    file.buffer[:] = b"x" * 4096
    monkeypatch.setattr(os, "pwrite", write_some)
    file.blank(50, 250)
    assert written == [(50, 250), (150, 150), (250, 50)]
    assert bytes(file.buffer[:]) == b"x" * 50 + bytes(250) + b"x" * 3796
    file.close()


def test_a_file_whose_mapping_was_closed_cannot_be_read_any_more(tmp_path):
    file = LocalDisk().open(tmp_path / "file", 4096)
    file.close()
    with pytest.raises(ValueError, match="closed"):
        file.buffer[0]


def test_a_missing_directory_is_forgiven_only_to_a_file_that_was_removed(tmp_path):
    file = LocalDisk().open(tmp_path / "a" / "file", 4096, is_one_of_many=True)
    (tmp_path / "a").rename(tmp_path / "b")
    with pytest.raises(FileNotFoundError):
        file.sync()
    (tmp_path / "b" / "file").unlink()
    file.sync()
    file.close()


def test_the_end_of_the_data_is_found_behind_holes_and_before_zeros(disk, tmp_path):
    file = disk.open(tmp_path / "file", 8 << 20)
    assert file.data_end(0) == 0
    file.buffer[5] = 1
    file.buffer[3 << 20] = 7
    file.blank(3 << 20 | 1, 2 << 20)  # zeros that are data to the file system
    assert file.data_end(0) == file.data_end(6) == (3 << 20) + 1
    assert file.data_end(4 << 20) == 4 << 20
    file.close()


def test_a_moved_file_is_at_its_new_place_alone(disk, tmp_path):
    disk.write(tmp_path / "old", b"content")
    disk.move(tmp_path / "old", tmp_path / "a" / "b" / "new")
    assert not disk.exists(tmp_path / "old")
    assert disk.read(tmp_path / "a" / "b" / "new") == b"content"


@pytest.mark.parametrize("last", [None, 0, 1, 254, 255, 256, 511, 512, 4095, 40_000, 65_535, 65_536, 70_000, 99_999])
def test_the_last_byte_is_found_wherever_it_is(disk, tmp_path, last):
    file = disk.open(tmp_path / "file", 100_000)
    file.blank(0, 100_000)
    if last is not None:
        file.buffer[last] = 1
    assert file.data_end(0) == (0 if last is None else last + 1)
    file.close()


def test_the_hole_at_a_files_end_is_known(tmp_path):
    disk = LocalDisk()
    file = disk.open(tmp_path / "file", 1 << 20)
    assert file.hole_start() == 0
    file.buffer[5000] = 1
    file.sync()
    assert 5000 < file.hole_start() < 1 << 20
    file.buffer[(1 << 20) - 1] = 1
    file.sync()
    assert file.hole_start() == 1 << 20
    file.close()


def test_a_file_whose_opening_failed_half_way_is_synced_with_its_name_by_the_next_open(tmp_path, monkeypatch):
    synced: list[Path] = []
    monkeypatch.setattr("orbitmq.store.local_disk.sync_directory", synced.append)
    disk, path = LocalDisk(), tmp_path / "log" / "file"

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    with monkeypatch.context() as broken:
        broken.setattr("orbitmq.store.local_disk.mmap.mmap", refuse)
        with pytest.raises(OSError, match="Cannot allocate"):
            disk.open(path, 4096)
    assert path.exists()
    file = disk.open(path, 4096)
    file.sync()
    file.close()
    assert synced == [tmp_path / "log", tmp_path]


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_a_file_that_cannot_be_opened_to_be_synced_was_not_refused_by_the_disk(number, tmp_path, monkeypatch):
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    file = LocalDisk().open(tmp_path / "file", 4096, is_one_of_many=True)
    with monkeypatch.context() as broken:
        broken.setattr("orbitmq.store.local_disk.os.open", refuse)
        with pytest.raises(DescriptorShortage) as caught:
            file.sync()
    assert caught.value.errno == number
    file.sync()
    file.close()


def test_two_threads_that_sync_a_new_file_at_the_same_time_both_succeed(tmp_path, monkeypatch):
    """The loop closes a full segment, the flusher commits what is in it: one took the other's directories away."""
    file = LocalDisk().open(tmp_path / "new" / "log" / "0", 4096)
    synced = []

    def sync(directory):
        synced.append(directory)
        if len(synced) == 1:
            file.sync()  # as the other thread would, at this very moment

    monkeypatch.setattr("orbitmq.store.local_disk.sync_directory", sync)
    file.sync()
    assert set(synced) == {tmp_path, tmp_path / "new", tmp_path / "new" / "log"}
    file.sync()
    assert len(synced) == 6
    file.close()


def test_what_only_the_superuser_may_use_counts_on_neither_side(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = SimpleNamespace(f_blocks=100, f_bfree=40, f_bavail=20, f_frsize=4096)
    monkeypatch.setattr("os.statvfs", lambda path: found if path == tmp_path else None)
    usage = disk_usage(tmp_path)
    assert usage == DiskUsage(total=409_600, used=245_760, free=81_920)
    assert usage.used_ratio == 0.75


def test_a_file_system_without_blocks_is_empty() -> None:
    assert DiskUsage(0, 0, 0).used_ratio == 0


def test_a_directory_that_is_not_there_cannot_be_asked(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        disk_usage(tmp_path / "none")


async def test_a_disk_that_is_asked_aside_answers_or_fails() -> None:
    assert await ask_aside(lambda: 7) == 7
    with pytest.raises(FileNotFoundError):
        await ask_aside(lambda: disk_usage(Path("/nowhere/at/all")))


async def test_an_answer_without_a_waiter_does_no_harm() -> None:
    asked = ask_aside(lambda: 7)
    asked.cancel()
    assert await ask_aside(lambda: 8) == 8


@pytest.mark.real
def test_no_exit_waits_for_a_disk_that_hangs() -> None:
    program = (
        "import asyncio, threading\n"
        "from orbitmq.store.disk_usage import ask_aside\n"
        "async def main():\n"
        "    asked = ask_aside(threading.Event().wait)\n"
        "    await asyncio.wait((asked,), timeout=0.01)\n"
        "    print('hangs')\n"
        "asyncio.run(main())\n"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment())
    assert (told.returncode, told.stdout) == (0, "hangs\n"), told.stderr


async def test_an_answer_that_comes_after_the_loop_has_ended_does_no_harm() -> None:
    gate = Event()
    done = Event()

    def ask() -> None:
        gate.wait()
        done.set()

    ask_aside(ask)
    gate.set()
    assert done.wait(60)


@pytest.fixture
def descriptor(tmp_path):
    opened = os.open(tmp_path, os.O_RDONLY)
    yield opened
    os.close(opened)


@each_case(("6.18.44-fc-v595", (6, 18)), ("5.17.0", (5, 17)), ("5.4", (5, 4)), ("6", (6,)), ("", ()), ("rolling", ()))
def test_a_kernels_version_is_its_releases_first_two_numbers(release, version):
    assert kernel_version(release) == version


@pytest.fixture
def known(monkeypatch, descriptor):
    """Let the file system of the tests be one of those known, whichever it is."""
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(platform, "release", lambda: "6.1.0")
    monkeypatch.setattr(bulk_sync, "_TELLING", EveryType())


class EveryType:
    def __contains__(self, type_of_file_system):
        return type_of_file_system > 0


@pytest.mark.skipif(platform.system() != "Linux", reason="syncfs is Linux's")
def test_a_known_file_system_of_a_new_kernel_tells_of_lost_writes(known, descriptor):
    assert tells_of_lost_writes(descriptor)
    sync_file_system(descriptor)


@pytest.mark.parametrize("release", ["5.16.20", "4.18.0-553.el8", ""])
def test_an_older_kernel_does_not(monkeypatch, known, descriptor, release):
    monkeypatch.setattr(platform, "release", lambda: release)
    assert not tells_of_lost_writes(descriptor)


@pytest.mark.parametrize(
    ("owner", "name", "value"),
    [(platform, "system", lambda: "Darwin"), (bulk_sync, "_libc", object), (bulk_sync, "_TELLING", {})],
    ids=["system", "C library", "file system"],
)
def test_what_is_not_known_does_not(monkeypatch, known, descriptor, owner, name, value):
    monkeypatch.setattr(owner, name, value)
    assert not tells_of_lost_writes(descriptor)


@pytest.mark.skipif(platform.system() != "Linux", reason="syncfs is Linux's")
def test_a_failure_is_told_with_its_number(known):
    assert not tells_of_lost_writes(-1)
    with pytest.raises(OSError, match="Bad file descriptor") as failure:
        sync_file_system(-1)
    assert failure.value.errno == errno.EBADF
