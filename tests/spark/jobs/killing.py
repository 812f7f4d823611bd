"""Jobs in processes of their own, which tests kill at a moment of their choice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest


def start_job(name_servers: str, *words: object) -> subprocess.Popen[str]:
    """Start `orbitmq job`; what it says on either stream comes as one."""
    return subprocess.Popen(
        [sys.executable, "-m", "orbitmq", "job", *map(str, words), "-n", name_servers],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def kill_when(job: subprocess.Popen[str], directory: Path, pattern: str, count: int) -> None:
    """End the job and all that it has started by SIGKILL, as soon as so many paths are there."""
    try:
        while len(list(directory.glob(pattern))) < count:
            with suppress(subprocess.TimeoutExpired):
                job.wait(0.01)
                pytest.fail(f"it has ended by itself: {job.communicate()[0]}")
    finally:
        os.killpg(job.pid, signal.SIGKILL)
        job.communicate()
