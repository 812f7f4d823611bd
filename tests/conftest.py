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
import threading
from collections.abc import Iterator
from functools import cache
from logging import LogRecord
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from orbitmq.net.loop import run

JAVA_VERSION_MIN = 17
WORKERS = 2
"""Of `make test WORKERS=auto` on any machine: much of it waits for Java, and every worker starts Java peers of its own."""
ASYNC_LIMIT_S = 120
"""An async test that hangs fails with the place where it hangs; none takes this long."""

# The machine's speed is no property of the code; a failing example is printed with the blob that repeats it.
settings.register_profile("orbitmq", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("orbitmq")

# A shell starts its background jobs with SIGINT ignored, and children inherit that: servers could not be interrupted.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Answer `-n auto`: who asks for a file, or for tests by name, does not pay for workers."""
    is_all = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    return 0 if not is_all or config.option.keyword or config.option.markexpr else WORKERS


def pytest_collection_finish() -> None:
    """Keep what was collected out of the garbage collections: looking at 12,000 tests takes each 0.3 s."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run `async def` tests on the loop that orbitmq uses."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}

    async def test() -> None:
        async with asyncio.timeout(ASYNC_LIMIT_S):
            await pyfuncitem.obj(**arguments)

    run(test())
    return True


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
