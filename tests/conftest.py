"""Set-up of all tests: workers, hypothesis settings, a loop for async tests, and what happens where no Java is installed."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, AsyncContextDecorator, AsyncExitStack
from functools import cache
from logging import LogRecord
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import seeds
import tiers
from leftovers import MARK, Leftovers, WorkerThreads
from orbitmq.net.loop import run
from processor_time import Meter, Totals

JAVA_VERSION_MIN = 17
WORKERS = 2
"""Of `make test WORKERS=auto` on any machine. Three take two thirds of the time on two cores, and find what a busy machine finds."""
ASYNC_LIMIT_S = 120
"""An async test that hangs fails with the place where it hangs; none takes this long."""

# The machine's speed is not a property of the code; a failing example is printed with the blob that repeats it.
_checks = [HealthCheck.too_slow]
settings.register_profile("orbitmq", deadline=None, print_blob=True, suppress_health_check=_checks)
# What a command of make runs has the same examples each time, so that luck fails no run; others are for the proof, and for single files.
_repeated = settings(settings.get_profile("orbitmq"), derandomize=True)
settings.register_profile("quick", _repeated, max_examples=seeds.EXAMPLES)
settings.register_profile("test", _repeated, max_examples=seeds.EXAMPLES)
settings.register_profile("interop", _repeated)
settings.load_profile(tiers.run_name() or "orbitmq")

# Without kept bytecode each server and each command that a test starts compiles 350 modules again: a second of each.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A shell starts its background jobs with SIGINT ignored, and children inherit that: servers could not be interrupted.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that keeps the processor time of each file."""
    keep = "keep the processor seconds of each file and of the run in tests/durations.json"
    parser.addoption("--keep-durations", action="store_true", help=keep)


def pytest_report_header() -> str:
    """Print the seed of the short proofs."""
    return f"{seeds.VARIABLE}={seeds.SEED}"


def pytest_configure(config: pytest.Config) -> None:
    """Guard quick tests, measure processor time, watch for what the run leaves behind."""
    config.pluginmanager.register(tiers.GuardOfQuickTests())
    config.pluginmanager.register(Meter())
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(WorkerThreads())
        return
    if MARK not in os.environ:  # a run that a test starts leaves to its test what is left
        config.pluginmanager.register(Leftovers())
    config.pluginmanager.register(Totals())
    config.pluginmanager.register(Progress())


class Progress:
    """Counts the tests of all workers: pytest-xdist takes the number of one for that of all, since elsewhere all collect the same."""

    def __init__(self) -> None:
        self._collected = 0

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self._session = session

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        self._collected += len(ids)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self) -> None:
        self._session.testscollected = self._collected or self._session.testscollected


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Answer `-n auto`: who asks for a file, or for tests by name, does not pay for workers."""
    return WORKERS if tiers.runs_all(config) else 0


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test with its tier."""
    for item in items:
        marks = [mark.name for mark in item.iter_markers()]
        item.add_marker(tiers.tier_of(item.path, marks, getattr(item, "fixturenames", ())))


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Let each worker of a whole run collect its own part of the files, and collect no garbage meanwhile: there is none."""
    gc.disable()
    worker = getattr(session.config, "workerinput", None)
    if worker is not None and session.config.args == session.config.getini("testpaths"):
        files = [path.relative_to(tiers.FOLDER).as_posix() for path in tiers.FOLDER.rglob("test_*.py")]
        part = tiers.parts(files, tiers.kept_files(), worker["workercount"])[int(worker["workerid"].removeprefix("gw"))]
        session.config.args = [str(tiers.FOLDER / file) for file in part]


def pytest_collection_finish() -> None:
    """Keep what was collected out of the garbage collections: looking at all tests takes each a second.

    A server that ends in this process, and a test of Spark's workers, would undo that for all later tests.
    """
    gc.enable()
    gc.freeze()
    gc.freeze = gc.unfreeze = lambda: None


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run `async def` tests on the loop that orbitmq uses, inside what their fixtures made by `asynccontextmanager`."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}

    async def test() -> None:
        async with asyncio.timeout(ASYNC_LIMIT_S), AsyncExitStack() as stack:
            for name, value in arguments.items():
                if isinstance(value, AbstractAsyncContextManager) and isinstance(value, AsyncContextDecorator):
                    arguments[name] = await stack.enter_async_context(value)
            await pyfuncitem.obj(**arguments)

    run(test())
    return True


@pytest.fixture(autouse=True)
def _leaks_are_found_by_their_own_test() -> Iterator[None]:
    """Collect garbage after a test that leaves more files or sockets open than it found: unclosed ones warn when collected."""
    before = _open_count()
    yield
    if _open_count() > before:
        gc.collect()


def _open_count() -> int:
    return len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0


_older_threads = pytest.StashKey[set[threading.Thread]]()


@pytest.fixture
def caplog(caplog: pytest.LogCaptureFixture, request: pytest.FixtureRequest) -> Iterator[pytest.LogCaptureFixture]:
    """pytest's own, deaf for threads older than the test: servers that tests share log whenever they like."""
    older = request.node.stash[_older_threads]

    def is_of_this_test(record: LogRecord) -> bool:
        return threading.current_thread() not in older

    caplog.handler.addFilter(is_of_this_test)
    yield caplog
    caplog.handler.removeFilter(is_of_this_test)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tests marked `java` or `spark` need Java: a loud skip on a laptop, a failure in CI."""
    item.stash[_older_threads] = set(threading.enumerate()) - {threading.main_thread()}
    if not any(item.get_closest_marker(name) for name in ("java", "spark")):
        return
    reason = missing_java()
    if reason is None:
        return
    if os.environ.get("CI"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@cache
def missing_java() -> str | None:
    """Say why there is no usable Java; None when there is one."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None:
        return f"no Java found: `make test` installs or asks for Java {JAVA_VERSION_MIN}"
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr
    except (OSError, subprocess.CalledProcessError) as error:
        return f"{java} does not run: {error}"
    found = re.search(r'version "(\d+)', answer)
    if found is None or int(found[1]) < JAVA_VERSION_MIN:
        return f"{java} is too old, Java {JAVA_VERSION_MIN} is needed: {answer.splitlines()[0]}"
    return None
