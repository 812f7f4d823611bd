"""Whether a broker holds a store is seen without touching its locks."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from orbitmq.store.disk import LocalDisk
from orbitmq.store.inspection.running import is_running


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
