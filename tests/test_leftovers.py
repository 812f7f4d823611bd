"""A run of tests names what it leaves behind, and fails by it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from children import environment

pytestmark = pytest.mark.real

ENVIRONMENT = environment() | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
"""Of runs without plugins, whose import takes most of a second."""

CONFTEST = """
import leftovers

leftovers.END_TIMEOUT_S = 0.1

def pytest_configure(config):
    config.pluginmanager.register(leftovers.Leftovers())
"""
TEST = """
import subprocess, sys, tempfile, threading

def test_of_a_project(tmp_path):
    (tmp_path / "file of the test").touch()
    {}
"""
LEAVES = {
    "nothing": ("pass", ""),
    "a file": ("tempfile.mkdtemp(prefix='leaves')", "left behind: file "),
    "a process": (
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True)",
        "left behind: process ",
    ),
    "a process that has no environment yet": (
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True, env={})",
        "left behind: process ",
    ),
    "a thread": (
        "threading.Thread(target=threading.Event().wait, daemon=True, name='waits').start()",
        "left behind: thread waits",
    ),
}


@pytest.mark.parametrize("what", LEAVES)
def test_a_run_names_what_it_leaves_and_fails_by_it(what: str, tmp_path: Path) -> None:
    does, said = LEAVES[what]
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_project.py").write_text(TEST.format(does))
    command = [sys.executable, "-m", "pytest", "-q", "-W", "ignore", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert "1 passed" in done.stdout, done.stdout + done.stderr
    assert done.returncode == (what != "nothing")
    assert [line.startswith(said) for line in done.stdout.splitlines() if "left behind" in line] == [True] * bool(said)


SESSION = """
import threading

import pytest

@pytest.fixture(scope="session")
def server():
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait, name="server of a session")
    thread.start()
    yield
    stop.set()
    thread.join()

def test_fails(server):
    assert False

def test_next(server): ...
"""
WORKERS_TOO = """
import leftovers

def pytest_configure(config):
    plugin = leftovers.WorkerThreads if hasattr(config, "workerinput") else leftovers.Leftovers
    config.pluginmanager.register(plugin())
"""


def test_a_worker_that_a_failure_ends_leaves_no_thread_of_a_sessions_fixture(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(WORKERS_TOO)
    (tmp_path / "test_session.py").write_text(SESSION)
    command = [sys.executable, "-m", "pytest", "-q", "-n", "1", "-x", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)
    assert "1 failed" in done.stdout, done.stdout + done.stderr
    assert "left behind" not in done.stdout


def test_what_is_left_hides_no_other_failure_of_the_run(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_project.py").write_text(
        "import tempfile\n\ndef test_it():\n    tempfile.mkdtemp()\n    raise KeyboardInterrupt\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert "left behind: file" in done.stdout, done.stdout + done.stderr
    assert done.returncode == pytest.ExitCode.INTERRUPTED
