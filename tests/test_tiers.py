"""Claims about the tiers: which test is in which, in which order files come, and what a quick test is refused."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from orbitmq.net.loop import run
from tiers import FOLDER, REAL_FIXTURES, guard, longest_first, tier_of

UNIT = FOLDER / "unit" / "net" / "test_pool.py"


@pytest.mark.parametrize(
    ("path", "marks", "fixtures", "tier"),
    [
        (UNIT, (), (), "quick"),
        (UNIT, ("parametrize",), ("tmp_path",), "quick"),
        (FOLDER / "test_tiers.py", (), (), "quick"),
        (UNIT, ("real",), (), "real"),
        (UNIT, ("java",), (), "real"),
        (UNIT, (), ("tmp_path", min(REAL_FIXTURES)), "real"),
        (FOLDER / "e2e" / "test_cli.py", (), (), "real"),
        (UNIT, ("proof", "real"), (), "proof"),
        (FOLDER / "e2e" / "test_cli.py", ("proof",), (), "proof"),
    ],
)
def test_the_tier_of_a_test_follows_from_its_marks_its_fixtures_and_its_folder(
    path: Path, marks: tuple[str, ...], fixtures: tuple[str, ...], tier: str
) -> None:
    assert tier_of(path, marks, fixtures) == tier


def test_the_longest_lane_comes_first_and_its_files_stay_together() -> None:
    files = {"unit/a.py": 1, "interop/a.py": 1, "unit/b.py": 1000, "interop/b.py": 1, "unit/c.py": 1}
    keys = longest_first(files, {"interop/a.py": 10, "interop/b.py": 15, "unit/c.py": 24})
    assert sorted(files, key=keys.__getitem__) == [
        "interop/a.py",
        "interop/b.py",
        "unit/c.py",
        "unit/b.py",
        "unit/a.py",
    ]


def connect() -> None:
    with socket.socket() as opened:
        opened.connect(("127.0.0.1", 1))


def bind() -> None:
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))


WAYS_OUT: dict[str, Callable[[], object]] = {
    "connect": connect,
    "bind": bind,
    "process": lambda: subprocess.Popen([sys.executable, "-c", ""]),
    "loop's server": lambda: run(asyncio.start_server(print, "127.0.0.1", 0)),
    "loop's connection": lambda: run(asyncio.open_connection("127.0.0.1", 1)),
    "loop's process": lambda: run(asyncio.create_subprocess_exec(sys.executable, "-c", "")),
}


@pytest.mark.parametrize("way", WAYS_OUT)
def test_a_quick_test_is_refused_sockets_and_processes(way: str) -> None:
    with pytest.raises(pytest.fail.Exception, match=r"mark .* with pytest\.mark\.real"):
        WAYS_OUT[way]()


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
        with pytest.raises(pytest.fail.Exception):
            bind()
    assert said == ["bound"]
