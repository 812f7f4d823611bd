"""Reading files that another program may change or remove, and whether a broker holds the store."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from orbitmq.store.inspection.reading import NotAFile, ReadOnlyFile, is_running, read_small
from orbitmq.store.local_disk import LocalDisk

MIB = 1 << 20


def test_bytes_are_copied_and_end_with_the_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"0123456789")
    with ReadOnlyFile(tmp_path / "file") as file:
        assert (file.size, file.read(2, 3), file.read(8, 100), file.read(50, 1)) == (10, b"234", b"89", b"")
        assert bytes(file.view(2, 3, 10)) == b"23456789"
        assert bytes(file.view(4, 3, 6)) == b"45"


def test_a_buffer_is_filled_as_far_as_the_file_goes(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"0123456789")
    buffer = bytearray(b"......")
    with ReadOnlyFile(tmp_path / "file") as file:
        assert (file.read_into(memoryview(buffer)[:4], 3), bytes(buffer)) == (4, b"3456..")
        assert (file.read_into(memoryview(buffer), 8), bytes(buffer)) == (2, b"8956..")
        assert file.read_into(memoryview(buffer), 10) == 0


def test_zeros_can_be_read_behind_the_end(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    with ReadOnlyFile(tmp_path / "file", 2) as file:
        assert (file.size, file.read(3, 100), file.read(3, 3), file.read(6, 5), file.read(9, 1)) == (
            7, b"45\0\0", b"45\0", b"\0", b"",
        )  # fmt: skip
        assert list(file.data_ranges(0, 7)) == [(0, 5)]


def test_what_was_read_is_served_again_until_it_is_forgotten(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"before")
    with ReadOnlyFile(tmp_path / "file") as file:
        assert bytes(file.view(0, 6, 6)) == b"before"
        (tmp_path / "file").write_bytes(b"behind")
        assert bytes(file.view(0, 6, 6)) == b"before"
        file.forget()
        assert bytes(file.view(0, 6, 6)) == b"behind"


def test_a_file_that_is_cut_meanwhile_is_short_and_no_bus_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(MIB))
    with ReadOnlyFile(tmp_path / "file") as file:
        os.truncate(tmp_path / "file", 10)
        assert len(file.read(0, MIB)) == 10
        assert file.data_end(0) == 0


def test_holes_are_not_read(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.write(b"head")
        file.truncate(3 << 30)  # files of more than 4 GiB are refused where mutants run
    with ReadOnlyFile(tmp_path / "sparse") as sparse:
        ranges = list(sparse.data_ranges(0, sparse.size))
        assert ranges[0][0] == 0
        assert sum(stop - start for start, stop in ranges) < MIB
        assert sparse.data_end(0) == 4


@pytest.mark.parametrize("kind", ["pipe", "directory"])
def test_only_regular_files_are_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "file"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    with pytest.raises(NotAFile):
        ReadOnlyFile(path)


def test_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc/passwd")
    with pytest.raises(OSError, match="symbolic links"):
        ReadOnlyFile(tmp_path / "link")


def test_a_small_file_has_a_largest_size(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    assert read_small(tmp_path / "file", 5) == b"12345"
    assert read_small(tmp_path / "missing", 5) is None
    with pytest.raises(OSError, match="has 5 bytes, more than 4"):
        read_small(tmp_path / "file", 4)


def test_an_open_store_is_seen_and_can_be_locked_afterwards(tmp_path: Path) -> None:
    assert not is_running(tmp_path)
    lock = LocalDisk().lock(tmp_path / "lock")
    assert is_running(tmp_path)
    lock.close()
    assert not is_running(tmp_path)
    LocalDisk().lock(tmp_path / "lock").close()


def test_a_broker_whose_lock_file_was_removed_is_seen(tmp_path: Path) -> None:
    lock = LocalDisk().lock(tmp_path / "lock")
    (tmp_path / "lock").unlink()
    assert is_running(tmp_path)
    lock.close()
    assert not is_running(tmp_path)


@pytest.mark.real
def test_a_lock_as_java_takes_it_is_seen(tmp_path: Path) -> None:
    import subprocess
    import sys

    (tmp_path / "lock").write_text("lock")
    code = "import fcntl, sys; f = open(sys.argv[1], 'r+'); fcntl.lockf(f, fcntl.LOCK_EX, 1); print(1, flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        assert is_running(tmp_path)
        other.communicate(b"\n")
    assert not is_running(tmp_path)


def test_asking_takes_no_lock(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("lock")
    with (tmp_path / "lock").open("r+") as file:
        assert not is_running(tmp_path)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
