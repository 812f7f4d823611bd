"""Processes that tests start."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil

from waiting import wait_for


def environment() -> dict[str, str]:
    """Return this process's environment, in which Python finds the tests' modules: pytest knows them by its settings alone."""
    folder = str(Path(__file__).parent)
    return {**os.environ, "PYTHONPATH": os.pathsep.join([folder, *filter(None, [os.environ.get("PYTHONPATH")])])}


def freeze(pid: int) -> None:
    """Let a process stand still (SIGSTOP); when this returns, it does: a signal that was sent need not have arrived."""
    os.kill(pid, signal.SIGSTOP)
    wait_for(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED, f"process {pid} to stand still")
