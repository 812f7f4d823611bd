"""Leftovers of a run of tests fail it: processes, threads, and files in its temporary directory."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import uuid
from pathlib import Path
from typing import Any

import psutil
import pytest

MARK = "ORBITMQ_TEST_RUN"
"""A variable of the environment by which all processes of a run are known, whatever their parent is by now."""
END_TIMEOUT_S = 60
"""A process that a test has told to end may still be about to."""
LIBRARIES = ("execnet", "py4j", "pyspark", "pytest_timeout", "xdist")
"""Packages that keep threads to the end of the process."""
OF_ALL_TESTS = ("MainThread", "Dummy-", "older than all tests")
"""How threads are called that belong to no test."""


class Leftovers:
    """Gives the run a temporary directory of its own (TMPDIR), and looks at its end at what is still there."""

    def __init__(self) -> None:
        self._run = os.environ[MARK] = uuid.uuid4().hex
        self._before = os.environ.get("TMPDIR")
        self._threads: list[str] = []
        os.environ.setdefault(
            "PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir()
        )  # pytest's own keeps what failed tests wrote
        self._directory = Path(tempfile.mkdtemp(prefix="orbitmq-tests-")).resolve()
        self._use(str(self._directory))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail the run when a process, a thread or a file is left."""
        found = [*self._processes(), *self._files(), *self._threads, *_threads()]
        self._use(self._before)
        if found:
            session.config.stash[_found] = found
            if session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take what a worker has found in its process."""
        self._threads += getattr(node, "workeroutput", {}).get("threads", ())

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
        """Name what is left."""
        for line in config.stash.get(_found, ()):
            terminalreporter.line(f"left behind: {line}", red=True)

    def pytest_unconfigure(self) -> None:
        """Remove the directory."""
        shutil.rmtree(self._directory, ignore_errors=True)

    def _processes(self) -> list[str]:
        _, alive = psutil.wait_procs(_processes_of(self._run), timeout=END_TIMEOUT_S)
        found = [f"process {process.pid}: {_command(process)}" for process in alive]
        for process in alive:
            process.kill()
        return found

    def _files(self) -> list[str]:
        """Return what lies in the directory; processes have ended by now, and JVMs remove at their end what is theirs."""
        return [f"file {path}" for path in sorted(self._directory.iterdir())]

    def _use(self, directory: str | None) -> None:
        if directory is None:
            os.environ.pop("TMPDIR", None)
        else:
            os.environ["TMPDIR"] = directory
        tempfile.tempdir = None


class WorkerThreads:
    """Tells the run of the threads that are left in a worker."""

    @pytest.hookimpl(trylast=True)  # fixtures of the session end first, where a failure has ended it early
    def pytest_sessionfinish(self, session: Any) -> None:
        """Send them with what the worker says at its end."""
        session.config.workeroutput["threads"] = _threads()


_found = pytest.StashKey[list[str]]()


def _processes_of(run: str) -> list[psutil.Process]:
    found = []
    this = psutil.Process()
    children = set(this.children(recursive=True))
    for process in psutil.process_iter():
        try:
            environment = process.environ()
            # A child has none for a moment after its start: the system sets it up after Popen has returned.
            if process != this and (environment.get(MARK) == run or (not environment and process in children)):
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
    return found


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())[:200]
    except psutil.Error:
        return "(it has just ended)"


def _threads() -> list[str]:
    """Return the threads of this process that outlive the tests."""
    threads = [thread for thread in threading.enumerate() if not thread.name.startswith(OF_ALL_TESTS)]
    return [f"thread {thread.name}" for thread in threads if not _module_of(thread).startswith(LIBRARIES)]


def _module_of(thread: threading.Thread) -> str:
    """Return where the class of a thread, or the function that it runs, was defined."""
    is_plain = type(thread) is threading.Thread
    return str(getattr(getattr(thread, "_target", None) if is_plain else type(thread), "__module__", ""))
