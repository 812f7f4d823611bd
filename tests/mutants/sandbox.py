"""A copy of the working tree in which one mutant after the other is tested. The working tree itself is never touched."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from mutants.mutation import Mutant
from mutants.order import MODULE
from mutants.rooms import ROOT, SOURCE

MEMORY_MAX = 4 << 30
FILE_SIZE_MAX = 4 << 30
NO_TESTS = 5
"""Exit code of pytest when there was nothing to run."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run of the tests ended."""

    code: int | None
    """pytest's exit code; None when the time limit ended it."""
    seconds: float
    output: str

    @property
    def noticed(self) -> bool:
        return self.code != 0


class Sandbox:
    """One copy of the working tree, and the tests that run in it one after the other."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._root = folder / "tree"
        self._home = folder / "home"
        self._temporary = folder / "tmp"
        self._compiled = folder / "compiled"
        self._seed = seed
        self._process: subprocess.Popen[str] | None = None
        self._lock = Lock()
        self._ended = False
        self._written_at_s = int(time.time())
        self._home.mkdir(parents=True)
        for path in _tracked():
            target = self._root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / path, target)

    def baseline(self, tests: list[str], limit_s: float) -> Outcome:
        """Run tests on the source as it is."""
        return self._run(tests, "", limit_s)

    def try_mutant(self, module: str, mutant: Mutant, tests: list[str], limit_s: float) -> Outcome:
        """Run tests with one module broken, until the first of them fails."""
        path = self._root / SOURCE / module
        original = path.read_bytes()
        self._write(path, mutant.applied_to(original))
        try:
            return self._run(tests, module, limit_s)
        finally:
            self._write(path, original)

    def end(self) -> None:
        """End the run that is under way, and let no other begin."""
        with self._lock:
            self._ended = True
            if self._process is not None:
                _kill_group(self._process)

    def _write(self, path: Path, text: bytes) -> None:
        """Write a module. Python compares times in seconds with those of its compiled files: each text gets its own."""
        path.write_bytes(text)
        self._written_at_s += 1
        os.utime(path, (self._written_at_s, self._written_at_s))

    def _run(self, tests: list[str], module: str, limit_s: float) -> Outcome:
        started = time.monotonic()
        with self._lock:
            if self._ended:
                raise InterruptedError
            self._process = process = self._start(tests, module)
        try:
            output, _ = process.communicate(timeout=limit_s)
            code: int | None = process.returncode
        except subprocess.TimeoutExpired:
            _kill_group(process)
            output, _ = process.communicate()
            code = None
        _kill_group(process)
        if self._ended:
            raise InterruptedError
        if code == NO_TESTS:
            raise LookupError(f"no tests in {' '.join(tests)}")
        return Outcome(code, time.monotonic() - started, output)

    def _start(self, tests: list[str], module: str) -> subprocess.Popen[str]:
        options = ["-x", "-q", "--no-header", "--tb=short", "-p", "no:cacheprovider", "-p", "mutants.order"]
        options += [f"--hypothesis-seed={self._seed}", f"--basetemp={self._temporary}"]
        path = os.pathsep.join(str(self._root / part) for part in ("src", "tests", "."))
        # Compiled files halve a run's time; they lie here, so that nothing outside the sandbox is written.
        own = {"PYTHONPATH": path, "PYTHONPYCACHEPREFIX": str(self._compiled), "HOME": str(self._home), MODULE: module}
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | own
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *options, *tests], cwd=self._root, env=environment, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
            errors="replace",
        )  # fmt: skip
        # A mutant that allocates or writes without end must not take the machine with it.
        for what, most in ((resource.RLIMIT_DATA, MEMORY_MAX), (resource.RLIMIT_FSIZE, FILE_SIZE_MAX)):
            resource.prlimit(process.pid, what, (most, most))
        return process


def _tracked() -> list[Path]:
    """Return the files of the working tree that git knows, or would know after an add."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [Path(name) for name in listed.split("\0") if name and (ROOT / name).is_file()]


def _kill_group(process: subprocess.Popen[str]) -> None:
    """Kill pytest and the processes that its tests started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
