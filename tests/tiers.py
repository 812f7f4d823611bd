"""The tier of each test: `make quick`, `make test` or `make proof`, and the lanes in which the two workers of a tier run.

quick   needs neither a socket nor a process of its own; a guard refuses both
real    runs a part of the product for real: servers, sockets, processes, JVMs, Spark
proof   takes minutes, or measures times, which the load of a machine changes

`@pytest.mark.proof` and `@pytest.mark.real` say so of a test or a module. Tests of a folder outside of `QUICK_FOLDERS`, tests marked
`java` or `spark`, and tests that use a fixture of `REAL_FIXTURES` are real without it; all others are quick.
"""

from __future__ import annotations

import json
import multiprocessing.util
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
"""Seconds of each test file and of each tier, measured: `make test ARGS=--keep-durations` writes them."""
SECONDS_OF_A_TEST = 0.02
"""Of a file that was not measured yet."""
TIERS = ("quick", "real", "proof")
SHARED_LANES = {"interop": "java", "compat": "java", "spark": "spark"}
"""Folders whose files share servers that take long to start."""
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
    if "proof" in marks:
        return "proof"
    is_real = path.relative_to(FOLDER).parts[0] not in QUICK_FOLDERS and path.parent != FOLDER
    if is_real or marks & {"real", "java", "spark"} or REAL_FIXTURES & set(fixtures):
        return "real"
    return "quick"


def lane_of(file: str) -> str:
    """Return the lane of a test file: the tests of one lane run one after the other in one worker.

    Files that share JVMs are one lane, so that these start once; else a file is a lane of its own.

    Args:
        file: its path below `FOLDER`.
    """
    return SHARED_LANES.get(file.partition("/")[0], file)


def longest_first(files: Mapping[str, int], durations: Mapping[str, float]) -> dict[str, tuple[float, str]]:
    """Return a key for each file by which the longest lanes come first, and the files of one lane together.

    Args:
        files: how many tests of each are run.
        durations: seconds of each file that was measured.
    """
    seconds: dict[str, float] = {}
    for file, count in files.items():
        lane = lane_of(file)
        seconds[lane] = seconds.get(lane, 0) + durations.get(file, SECONDS_OF_A_TEST * count)
    return {file: (-seconds[lane_of(file)], lane_of(file)) for file in files}


@cache
def durations() -> dict[str, dict[str, float]]:
    """Return the kept seconds of `files` and of `tiers`."""
    return dict(json.loads(DURATIONS.read_text())) if DURATIONS.exists() else {"files": {}, "tiers": {}}


def keep_durations(files: Mapping[str, float], tiers: Mapping[str, float]) -> None:
    """Merge measured seconds into the kept ones; files that are gone go, and those of less than a second."""
    merged = {**durations()["files"], **files}
    kept = {
        "files": {
            file: round(merged[file], 1) for file in sorted(merged) if merged[file] >= 1 and (FOLDER / file).exists()
        },
        "tiers": {tier: round(seconds) for tier, seconds in sorted({**durations()["tiers"], **tiers}.items())},
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
