"""A run of tests fails by what it leaves behind, and names it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from children import environment

pytestmark = pytest.mark.real

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
    "a thread": (
        "threading.Thread(target=threading.Event().wait, daemon=True, name='waits').start()",
        "left behind: thread waits",
    ),
}


@pytest.mark.parametrize("what", LEAVES)
def test_a_run_fails_by_what_it_leaves(what: str, tmp_path: Path) -> None:
    does, said = LEAVES[what]
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_project.py").write_text(TEST.format(does))
    command = [sys.executable, "-m", "pytest", "-q", "-W", "ignore", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)
    assert "1 passed" in done.stdout, done.stdout + done.stderr
    assert done.returncode == bool(said)
    assert [line.startswith(said) for line in done.stdout.splitlines() if "left behind" in line] == [True] * bool(said)
