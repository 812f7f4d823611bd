"""Claims about how full a disk is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from threading import Event
from types import SimpleNamespace

import pytest

from children import environment
from orbitmq.store.disk_usage import DiskUsage, ask_aside, disk_usage


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


async def test_an_answer_that_nobody_waits_for_any_more_does_no_harm() -> None:
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
