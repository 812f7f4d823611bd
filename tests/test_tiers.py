"""Claims about the tiers: which test is in which, in which order files come, and what a quick test is refused."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import shutil
import socket
import subprocess
import sys
import threading
import tomllib
from collections.abc import Callable
from itertools import combinations, product
from pathlib import Path

import pytest

from cases import each_case
from children import environment
from orbitmq.net.loop import run
from tiers import (
    FOLDER,
    PROCESSOR_SECONDS_MAX,
    REAL_FIXTURES,
    SELECTIONS,
    TIERS,
    durations,
    guard,
    parts,
    tier_in,
    tier_of,
)

UNIT = FOLDER / "unit" / "net" / "test_pool.py"


@each_case(
    (UNIT, (), (), "quick"),
    (UNIT, ("parametrize",), ("tmp_path",), "quick"),
    (FOLDER / "test_tiers.py", (), (), "quick"),
    (UNIT, ("real",), (), "real"),
    (UNIT, ("spark",), (), "real"),
    (UNIT, ("java",), (), "interop"),
    (UNIT, ("interop", "real"), (), "interop"),
    (UNIT, (), ("tmp_path", min(REAL_FIXTURES)), "real"),
    (FOLDER / "e2e" / "test_cli.py", (), (), "real"),
    (FOLDER / "interop" / "test_pop.py", ("java",), (), "interop"),
    (FOLDER / "interop" / "test_pop.py", ("java", "real"), (), "real"),
    (UNIT, ("proof", "interop", "real"), (), "proof"),
    (FOLDER / "e2e" / "test_cli.py", ("proof",), (), "proof"),
)
def test_the_tier_of_a_test_follows_from_its_marks_its_fixtures_and_its_folder(
    path: Path, marks: tuple[str, ...], fixtures: tuple[str, ...], tier: str
) -> None:
    assert tier_of(path, marks, fixtures) == tier


FOLDERS = {
    "quick": {"unit", "property", "fuzz", "raft", "house"},
    "real": {
        "cluster",
        "crash",
        "e2e",
        "failover",
        "hostile",
        "memory_proof",
        "mutants",
        "proof",
        "simulation",
        "spark",
    },
    "interop": {"interop", "compat"},
}


def test_every_folder_has_the_tier_of_its_tests_without_a_mark() -> None:
    found: dict[str, set[str]] = {}
    for folder in {path.relative_to(FOLDER).parts[0] for path in FOLDER.glob("*/**/test_*.py")}:
        found.setdefault(tier_of(FOLDER / folder / "test_any.py", (), ()), set()).add(folder)
    assert found == FOLDERS


@each_case(
    *product(
        sorted(set.union(*FOLDERS.values())), [marks for count in range(4) for marks in combinations(TIERS[1:], count)]
    )
)
def test_a_test_is_run_by_one_command_whatever_its_marks(folder: str, marks: tuple[str, ...]) -> None:
    tier = tier_of(FOLDER / folder / "test_any.py", marks, ())
    keywords = {*marks, tier}
    commands = {command for command, marks in SELECTIONS.items() if is_selected(marks, keywords)}
    assert tier_in(keywords) == tier
    assert commands == {"quick": {"quick", "test"}, "real": {"test"}}.get(tier, {tier})


def is_selected(expression: str, keywords: set[str]) -> bool:
    """Return what pytest's -m says: its expressions are Python's, and a word is true when it is a mark."""
    return bool(eval(expression, {tier: tier in keywords for tier in TIERS}))


def test_the_commands_select_by_these_marks() -> None:
    makefile = (FOLDER.parent / "Makefile").read_text()
    settings = tomllib.loads((FOLDER.parent / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    assert "-m quick -o timeout=60 $(IN_WORKERS)" in makefile
    assert f"-m '{SELECTIONS['test']}'" in settings["addopts"]
    assert f"-m '{SELECTIONS['interop']}' $(IN_WORKERS)" in makefile


def test_the_kept_runs_are_within_their_limits() -> None:
    kept = durations()["runs"]
    seconds = {run: kept[run]["seconds"] for run in kept if "seconds" in kept[run]}  # a run that failed has only files
    assert {run: used for run, used in seconds.items() if used > PROCESSOR_SECONDS_MAX[run]} == {}


MAVEN = """#!/bin/sh
echo "[ERROR] Failed to execute goal: Could not transfer artifact from central: Name or service not known"
exit 1
"""


@pytest.mark.real
def test_peers_that_cannot_be_made_are_one_sentence(tmp_path: Path) -> None:
    peers = tmp_path / "tests" / "interop" / "java"
    shutil.copytree(FOLDER / "interop" / "java" / "src", peers / "src")
    shutil.copy(FOLDER / "interop" / "java" / "pom.xml", peers)
    (tmp_path / "scripts").mkdir()
    programs = {"scripts/find-java": "#!/bin/sh\necho /a/jdk\n", "scripts/mvn": MAVEN}
    programs["scripts/make-peers"] = (FOLDER.parent / "scripts" / "make-peers").read_text()
    for name, text in programs.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    called = {**os.environ, "PATH": f"{tmp_path / 'scripts'}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        [tmp_path / "scripts" / "make-peers"], env=called, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "Maven cannot build the Java peers: Could not transfer artifact from central: Name or" in done.stderr
    assert not (peers / "target" / ".complete").exists()


def test_each_file_is_in_one_part_lanes_stay_together_and_the_loads_are_even() -> None:
    files = ["unit/a.py", "interop/a.py", "unit/b.py", "interop/b.py", "unit/c.py"]
    found = parts(files, {"interop/a.py": 10, "interop/b.py": 15, "unit/b.py": 20, "unit/c.py": 6}, 2)
    assert found == [["unit/a.py", "interop/a.py", "interop/b.py"], ["unit/c.py", "unit/b.py"]]


def connect() -> None:
    with socket.socket() as opened:
        opened.connect(("127.0.0.1", 1))


def bind() -> None:
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))


def send() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
        opened.sendto(b"x", ("127.0.0.1", 9))


def send_message() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
        opened.sendmsg([b"x"], [], 0, ("127.0.0.1", 9))


def send_to_the_other_end() -> None:
    one, other = socket.socketpair()
    with one, other:
        one.sendmsg([b"x"])


WAYS_OUT: dict[str, Callable[[], object]] = {
    "connect": connect,
    "bind": bind,
    "datagram": send,
    "message": send_message,
    "multiprocessing": lambda: multiprocessing.get_context("spawn").Process(target=print).start(),
    "process": lambda: subprocess.Popen([sys.executable, "-c", ""]),
    "loop's server": lambda: run(asyncio.start_server(print, "127.0.0.1", 0)),
    "loop's connection": lambda: run(asyncio.open_connection("127.0.0.1", 1)),
    "loop's process": lambda: run(asyncio.create_subprocess_exec(sys.executable, "-c", "")),
}


@pytest.mark.real
@pytest.mark.parametrize("way", WAYS_OUT)
def test_a_quick_test_is_refused_sockets_and_processes(way: str) -> None:
    with pytest.raises(pytest.fail.Exception, match=r"mark a quick test with pytest\.mark\.real"):
        with guard().over("a quick test"):
            WAYS_OUT[way]()


def test_a_quick_test_may_use_pairs_of_sockets() -> None:
    send_to_the_other_end()


GUARDED = """
import tiers

def pytest_configure(config):
    config.addinivalue_line("markers", "quick: ")
    config.pluginmanager.register(tiers.GuardOfQuickTests())
"""
USES = """
import socket, threading

import pytest

pytestmark = pytest.mark.quick

def bind():
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))


@pytest.fixture
def bound():
    bind()


@pytest.fixture
def thread():
    begin = threading.Event()
    thread = threading.Thread(target=lambda: (begin.wait(), bind()))
    thread.start()
    yield begin, thread
    begin.set()
    thread.join()


@pytest.fixture(scope="session")
def closes():
    yield
    bind()


def test_fixture(bound): ...


def test_thread_of_a_fixture(thread):
    thread[0].set()
    thread[1].join()


def test_hidden():
    try:
        bind()
    except BaseException:
        pass


def test_last(closes): ...
"""


@pytest.mark.real
@pytest.mark.parametrize(
    ("name", "failed"), [("fixture", True), ("thread_of_a_fixture", True), ("hidden", True), ("last", False)]
)
def test_fixtures_of_a_quick_test_and_refusals_that_it_hides_count(name: str, failed: bool, tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(GUARDED)
    (tmp_path / "test_uses.py").write_text(USES)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:threadexception", "-k", name]
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == failed, done.stdout + done.stderr
    assert ("socket.bind in a quick test: mark" in done.stdout) == failed


@pytest.mark.real
def test_a_thread_of_before_the_test_is_refused_nothing() -> None:
    begin, said = threading.Event(), []

    def serve() -> None:
        begin.wait()
        bind()
        said.append("bound")

    thread = threading.Thread(target=serve)
    thread.start()
    with guard().over("a quick test"):
        begin.set()
        thread.join()
    with pytest.raises(pytest.fail.Exception), guard().over("a quick test"):
        bind()
    assert said == ["bound"]
