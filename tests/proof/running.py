"""One row's command in a process group of its own: its output goes to a log, and its whole group ends with it."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, NamedTuple, TextIO

import psutil

GRACE_S = 10.0
"""How long a process group may take after a signal before it gets the next one."""
POLL_S = 0.05
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)


class Ended(NamedTuple):
    """How a command ended: exit code, and the last lines that are not blank."""

    code: int
    last_line: str
    last_error: str
    is_interrupted: bool


class Interruption:
    """Counts SIGINT, SIGTERM and SIGHUP. A child starts with their usual actions, for it is not a handler of ours that it inherits."""

    def __init__(self) -> None:
        self.count = 0

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Count signals until the block ends."""
        before = {number: signal.signal(number, self._add) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _add(self, *_: object) -> None:
        self.count += 1


class _Output:
    """The lines of a command: written to its log, shown, and the last of each stream remembered."""

    def __init__(self, log: TextIO, show: Callable[[str], None]) -> None:
        self.last = {"stdout": "", "stderr": ""}
        self._log, self._show, self._lock = log, show, threading.Lock()

    def copy(self, name: str, stream: IO[str]) -> threading.Thread:
        """Copy a stream in a thread until it ends."""
        thread = threading.Thread(target=self._copy, args=(name, stream), daemon=True)
        thread.start()
        return thread

    def _copy(self, name: str, stream: IO[str]) -> None:
        with stream:
            for line in stream:
                with self._lock, suppress(ValueError):  # a closed log: a process outside of the group still writes
                    self._log.write(line)
                    self._log.flush()
                    if line.strip():
                        self.last[name] = line.strip()
                        self._show(line.strip())


def run(
    command: Sequence[str],
    log: Path,
    interruption: Interruption,
    *,
    environment: Mapping[str, str],
    folder: Path,
    show: Callable[[str], None] = lambda _: None,
    grace_s: float = GRACE_S,
) -> Ended:
    """Run a command until it ends or a signal comes; afterwards no process of its group is left.

    Args:
        show: called with each line that is not blank, in another thread.
        grace_s: seconds between SIGINT, SIGTERM and SIGKILL.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w", encoding="utf-8") as file:
        output = _Output(file, show)
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
            cwd=folder,
            env={**environment, "PYTHONUNBUFFERED": "1"},
            start_new_session=True,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        copies = [output.copy("stdout", process.stdout), output.copy("stderr", process.stderr)]
        while process.poll() is None and not interruption.count:
            with suppress(subprocess.TimeoutExpired):
                process.wait(POLL_S)
        is_interrupted = process.poll() is None
        _end(process, interruption, grace_s)
        for copy in copies:
            copy.join(5)
        return Ended(process.wait(), output.last["stdout"], output.last["stderr"], is_interrupted)


def _end(process: subprocess.Popen[str], interruption: Interruption, grace_s: float) -> None:
    """End a process group: SIGINT, then SIGTERM, then SIGKILL; another Ctrl-C sends the next signal immediately."""
    below = _descendants(process)
    for number in SIGNALS:
        if not _is_alive(process):
            break
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        until, seen = time.monotonic() + grace_s, interruption.count
        while _is_alive(process) and time.monotonic() < until and interruption.count == seen:
            time.sleep(POLL_S)
    for child in below:  # a child with a session of its own, whose parent had no time to end it
        with suppress(psutil.Error):
            child.kill()


def _descendants(process: subprocess.Popen[str]) -> list[psutil.Process]:
    with suppress(psutil.Error):
        return list(psutil.Process(process.pid).children(recursive=True)) if process.poll() is None else []
    return []


def _is_alive(process: subprocess.Popen[str]) -> bool:
    """Return True if any process of the group runs; one that has ended and was not waited for does not count."""
    if process.poll() is None:
        return True
    for other in psutil.process_iter(["status"]):
        with suppress(ProcessLookupError, psutil.Error, PermissionError):
            if os.getpgid(other.pid) == process.pid and other.info["status"] != psutil.STATUS_ZOMBIE:
                return True
    return False
