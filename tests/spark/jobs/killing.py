"""Jobs in processes of their own, which tests kill at a moment of their choice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

is_killed = pytest.mark.parametrize(
    "is_killed", [False, pytest.param(True, marks=[pytest.mark.proof, pytest.mark.timeout(1_200)])], ids=["", "killed"]
)
"""A job in this session's Spark; `make proof` kills others before it, which start Spark again, a minute each on a busy machine."""


def start_job(name_servers: str, *words: object, directory: Path | None = None) -> subprocess.Popen[str]:
    """Start `orbitmq job`, as `start_command`."""
    return start_command(name_servers, "job", *words, directory=directory)


def start_command(name_servers: str, *words: object, directory: Path | None = None) -> subprocess.Popen[str]:
    """Start a command; what it says on either stream comes as one. It runs in `directory`."""
    return subprocess.Popen(
        [sys.executable, "-m", "orbitmq", *map(str, words), "-n", name_servers],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        cwd=directory,
    )


def kill_when(job: subprocess.Popen[str], directory: Path, pattern: str, count: int) -> None:
    """End the job and all that it has started by SIGKILL, as soon as so many paths are there."""
    kill_as_soon_as(job, lambda: len(list(directory.glob(pattern))) >= count)


def kill_as_soon_as(job: subprocess.Popen[str], is_time: Callable[[], bool], every_s: float = 0.01) -> None:
    """End the job and all that it has started by SIGKILL, as soon as something holds."""
    try:
        while not is_time():
            with suppress(subprocess.TimeoutExpired):
                job.wait(every_s)
                pytest.fail(f"it has ended by itself: {job.communicate()[0]}")
    finally:
        os.killpg(job.pid, signal.SIGKILL)
        job.communicate()
