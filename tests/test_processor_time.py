"""Claims about the measurement: whose processor time counts, in which file, and which files are named."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from children import environment
from processor_time import over, used

WORKS_S = 0.3
WORK = f"import time\nwhile time.process_time() < {WORKS_S}: pass"


@pytest.mark.real
def test_the_work_of_living_and_of_ended_children_counts() -> None:
    before = used()
    subprocess.run([sys.executable, "-c", WORK], check=True)
    ended = used()
    assert ended - before >= WORKS_S
    says_and_waits = f"{WORK}\nprint(flush=True)\ninput()"
    with subprocess.Popen(
        [sys.executable, "-c", says_and_waits], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        if sys.platform == "linux":
            assert used() - ended >= WORKS_S - 0.02  # two ticks
        child.communicate(b"\n")
    assert used() - ended >= WORKS_S


def test_a_file_is_named_that_takes_a_fifth_and_two_seconds_more() -> None:
    kept = {"a.py": 100.0, "b.py": 100.0, "c.py": 1.0, "d.py": 1.0}
    assert over({"a.py": 119.0, "b.py": 121.0, "c.py": 2.9, "d.py": 3.1, "new.py": 2.1}, kept) == {
        "b.py": 121.0,
        "d.py": 3.1,
        "new.py": 2.1,
    }


CONFTEST = """
import pytest
import processor_time, tiers

processor_time.LIMIT_OF_A_TEST_S = 0.1

def pytest_addoption(parser):
    parser.addoption("--keep-durations", action="store_true")

def pytest_configure(config):
    config.addinivalue_line("markers", "quick: ")
    config.pluginmanager.register(processor_time.Meter())
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(processor_time.Totals())

def pytest_collection_modifyitems(items):
    for item in items:
        item.add_marker("quick")
"""
TEST = f"""
import subprocess, sys

def test_works():
    subprocess.run([sys.executable, "-c", {WORK!r}], check=True)

def test_does_not(): ...
"""


@pytest.mark.real
@pytest.mark.parametrize("workers", [0, 2])
def test_a_run_prints_the_processor_time_of_its_workers_and_their_children(workers: int, tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\ntestpaths = .")
    (tmp_path / "test_work.py").write_text(TEST)
    command = [sys.executable, "-m", "pytest", "-q", "-W", "ignore", "-p", "no:cacheprovider", "-n", str(workers)]
    called = {**environment(), "ORBITMQ_TIER": "test"}
    done = subprocess.run(command, cwd=tmp_path, env=called, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^\d+ s, all started processes included, at most 600 s", done.stdout, re.MULTILINE), done.stdout
    named = re.findall(r"^test_work\.py::(\w+): [\d.]+ s, at most 0\.1 s alone", done.stdout, re.MULTILINE)
    assert named == ["test_works"]
