"""The tier of each test, the command of make that runs it, and the parts of a run that its two workers have.

quick    needs neither a socket nor a process of its own; a guard refuses both: `make quick`, and `make test`
real     runs a part of the product for real, 15 s at most: servers, sockets, processes, one Spark session, one Java broker: `make test`
interop  talks with Java's RocketMQ, starts a Spark session of its own, or runs a long page of the documentation: `make interop`
proof    takes minutes, or measures times, which the load of a machine changes: `make proof`

The marks of these names say so of a test or a module; of several the longest tier counts. Without one, tests of `INTEROP_FOLDERS` and
tests marked `java` are interop; tests of a folder outside of `QUICK_FOLDERS`, tests marked `spark`, and tests that use a fixture of
`REAL_FIXTURES` are real; all others are quick.
"""

from __future__ import annotations

import json
import multiprocessing.util
import os
import sys
import threading
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, wraps
from pathlib import Path
from typing import Any

import pytest

from orbitmq.net.loop import loop_factory

FOLDER = Path(__file__).parent
DURATIONS = FOLDER / "durations.json"
"""Processor seconds of each test file, of the tests of each tier and of each whole run, which `ARGS=--keep-durations` writes."""
SECONDS_OF_A_FILE = 0.2
"""Of one that takes less than a second, or was not measured yet."""
TIERS = ("quick", "real", "interop", "proof")
SELECTIONS = {
    "quick": "quick",
    "test": "not (interop or proof)",
    "interop": "interop and not proof",
    "proof": "proof",
}
"""The marks that each command of make asks for; pyproject.toml has those of `make test`."""
PROCESSOR_SECONDS_MAX = {"quick": 150, "test": 600, "interop": 900}
"""Of a whole run of a command of make, on the machine that `DURATIONS` names."""
SHARED_LANES = {"interop": "java", "compat": "java", "spark": "spark"}
"""Folders whose files share servers that take long to start."""
INTEROP_FOLDERS = frozenset({"interop", "compat"})
QUICK_FOLDERS = frozenset({"unit", "property", "fuzz", "raft", "house"})
REAL_FIXTURES = frozenset(
    {"asking_cluster", "cluster", "fake", "once", "rocketmq", "rocketmq_session", "serve", "served"}
)
FORBIDDEN_EVENTS = frozenset(
    {
        "socket.connect",
        "socket.bind",
        "socket.sendto",
        "subprocess.Popen",
        "os.exec",
        "os.fork",
        "os.forkpty",
        "os.posix_spawn",
        "os.system",
    }
)
"""Of Python's audit hooks, as is `socket.sendmsg` with an address. uvloop opens its sockets without Python's: `FORBIDDEN_METHODS` are its ways to do so."""
FORBIDDEN_METHODS = (
    "create_connection", "create_datagram_endpoint", "create_server", "create_unix_connection", "create_unix_server",
    "sock_connect", "subprocess_exec", "subprocess_shell",
)  # fmt: skip


def tier_of(path: Path, marks: Iterable[str], fixtures: Iterable[str]) -> str:
    """Return the tier of a test.

    Args:
        path: its file, below `FOLDER`.
        marks: the names of its marks.
        fixtures: the names of the fixtures that it uses, those of its fixtures included.
    """
    marks = set(marks)
    for tier in ("proof", "interop", "real"):
        if tier in marks:
            return tier
    folder = path.relative_to(FOLDER).parts[0]
    if folder in INTEROP_FOLDERS or "java" in marks:
        return "interop"
    is_real = folder not in QUICK_FOLDERS and path.parent != FOLDER
    return "real" if is_real or "spark" in marks or REAL_FIXTURES & set(fixtures) else "quick"


def tier_in(keywords: Collection[str]) -> str:
    """Return the tier of a collected test: its own marks may name shorter ones, too."""
    return next(tier for tier in reversed(TIERS) if tier in keywords)


def lane_of(file: str) -> str:
    """Return the lane of a test file: the tests of one lane run one after the other in one worker.

    Files that share JVMs are one lane, so that these start once; else a file is a lane of its own.

    Args:
        file: its path below `FOLDER`.
    """
    return SHARED_LANES.get(file.partition("/")[0], file)


def parts(files: Iterable[str], durations: Mapping[str, float], count: int) -> list[list[str]]:
    """Return the files of each worker: the longest lane is given first, each to the worker that has least to do.

    A worker runs its longest lane last: servers that tests share run in threads of its process until it ends, and what
    a unit test replaces for itself is replaced for them, too.

    Args:
        files: paths below `FOLDER`.
        durations: processor seconds of each file that was measured.
        count: of workers.
    """
    lanes: dict[str, list[str]] = {}
    for file in sorted(files):
        lanes.setdefault(lane_of(file), []).append(file)
    seconds = {lane: sum(durations.get(file, SECONDS_OF_A_FILE) for file in lanes[lane]) for lane in lanes}
    found: list[list[str]] = [[] for _ in range(count)]
    loads = [0.0] * count
    for lane in sorted(lanes, key=lambda lane: -seconds[lane]):
        least = loads.index(min(loads))
        found[least] = lanes[lane] + found[least]
        loads[least] += seconds[lane]
    return found


def run_name() -> str:
    """Return which command of make this run is: quick, test or interop; nothing for any other."""
    return os.environ.get("ORBITMQ_TIER", "")


def runs_all(config: pytest.Config) -> bool:
    """Return True if neither files nor tests are named."""
    return config.args_source is pytest.Config.ArgsSource.TESTPATHS and not config.option.keyword


def file_of(nodeid: str) -> str:
    """Return a test's file, below `FOLDER`."""
    return nodeid.partition("::")[0].removeprefix("tests/")


@cache
def durations() -> dict[str, dict[str, Any]]:
    """Return the kept processor seconds: of the tests of `tiers`, and of whole `runs` with their files."""
    return dict(json.loads(DURATIONS.read_text())) if DURATIONS.exists() else {"tiers": {}, "runs": {}}


def kept_files() -> dict[str, float]:
    """Return the kept processor seconds of each test file in this run's command; in `make test` where it is another."""
    runs = durations()["runs"]
    return dict(runs.get(run_name() or "test", {}).get("files", {}))


def keep_durations(
    run: str, seconds: float, files: Mapping[str, float], tiers: Mapping[str, float], machine: str
) -> None:
    """Keep the measured processor seconds of a run in the place of its last ones; files of less than a second are left out.

    Args:
        run: its command: quick, test or interop.
        seconds: all of the run, the start of workers and the collection of tests included.
        files: of each test file.
        tiers: of the tests of each tier.
        machine: on which they were measured, and when.
    """
    old = durations()
    kept = {
        "tiers": {tier: round(seconds) for tier, seconds in sorted({**old["tiers"], **tiers}.items())},
        "runs": {
            **old["runs"],
            run: {
                "measured": machine,
                "seconds": round(seconds),
                "files": {file: round(files[file], 1) for file in sorted(files) if files[file] >= 1},
            },
        },
    }
    DURATIONS.write_text(json.dumps(kept, indent=1) + "\n")


class Guard:
    """Refuses sockets and processes to quick tests, and to the threads that they start."""

    def __init__(self) -> None:
        self._nodeid: str | None = None
        self._other_threads: frozenset[threading.Thread] = frozenset()
        self._refusal: str | None = None
        sys.addaudithook(self._hear)
        # multiprocessing starts its processes without a hook.
        multiprocessing.util.spawnv_passfds = self._guarded(multiprocessing.util.spawnv_passfds, "multiprocessing")
        loop_class = loop_factory()
        for name in FORBIDDEN_METHODS if loop_class is not None else ():
            setattr(loop_class, name, self._guarded(getattr(loop_class, name), f"the loop's {name}"))

    @contextmanager
    def over(self, nodeid: str, older: Collection[threading.Thread] | None = None) -> Iterator[None]:
        """Refuse both inside, and fail at the end by a refusal that did not come through: of a thread, or caught.

        Args:
            older: threads that ran before the test, which are none of its own; those that run now when left out.
        """
        self._other_threads = frozenset(other_threads() if older is None else older)
        self._nodeid, self._refusal = nodeid, None
        try:
            yield
        finally:
            self._nodeid = None
        if self._refusal is not None:
            pytest.fail(self._refusal, pytrace=False)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._nodeid is None:
            return
        if event in FORBIDDEN_EVENTS or (event == "socket.sendmsg" and arguments[1] is not None):
            self._refuse(event)

    def _guarded(self, method: Any, what: str) -> Any:
        @wraps(method)
        def guarded(*arguments: Any, **options: Any) -> Any:
            if self._nodeid is not None:
                self._refuse(what)
            return method(*arguments, **options)

        return guarded

    def _refuse(self, what: str) -> None:
        if threading.current_thread() not in self._other_threads:
            self._refusal = f"{what} in a quick test: mark {self._nodeid} with pytest.mark.real"
            pytest.fail(self._refusal, pytrace=False)


def other_threads() -> set[threading.Thread]:
    """Return the threads that run next to this one."""
    return set(threading.enumerate()) - {threading.current_thread()}


class GuardOfQuickTests:
    """A plugin of pytest: the guard over quick tests and the set-up of their fixtures.

    It is not over the end of fixtures: those of a whole session end with the last test, which may never have used them.
    """

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, None, None]:
        """Refuse both to fixtures."""
        item.stash[_older_threads] = other_threads()
        with self._guard_of(item):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, None, None]:
        """Refuse both to the test."""
        with self._guard_of(item):
            return (yield)

    def _guard_of(self, item: pytest.Item) -> AbstractContextManager[None]:
        if "quick" not in item.keywords:
            return nullcontext()
        return guard().over(item.nodeid, item.stash[_older_threads])


_older_threads = pytest.StashKey[set[threading.Thread]]()


@cache
def guard() -> Guard:
    """Return the process's guard: an audit hook cannot be taken away again."""
    return Guard()
