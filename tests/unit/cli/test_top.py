"""`orbitmq top`: one screen in a pipe or as JSON, and the live screen on a terminal."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import termios
import time
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from cases import each_case
from orbitmq.cli.top import View, _Screen, sort_rows

pytestmark = pytest.mark.real

READ_TIMEOUT_S = 60


def test_in_a_pipe_it_prints_one_screen_of_all_three(orbitmq, topic):
    result = orbitmq("top")
    assert result.code == 0
    assert result.out.startswith("BROKER ")
    assert "\nTOPIC " in result.out
    assert "\nGROUP " in result.out
    assert f"\n{topic} " in result.out


def test_as_json_it_has_the_rows_of_all_three(orbitmq, topic):
    found = orbitmq("top", "--once", "-o", "json").json
    assert found.keys() == {"brokers", "topics", "groups"}
    assert topic in [row["topic"] for row in found["topics"]]
    assert found["brokers"][0]["role"] == "master"


def test_a_live_screen_is_no_json(orbitmq):
    refused = orbitmq("top", "-o", "json")
    assert refused.code == 2
    assert "--once" in refused.err


def test_without_a_cluster_it_says_so(orbitmq):
    assert orbitmq("top", "--once", "-n", "127.0.0.1:1").code == 3


ROWS: list[dict[str, Any]] = [{"name": "b", "rate": None}, {"name": "a", "rate": 1}, {"name": "c", "rate": 2}]


@each_case(
    (None, False, "bac", ""),
    (None, True, "cab", ", reversed"),
    (0, False, "abc", " by name"),
    (1, False, "cab", " by rate"),
    (1, True, "acb", " by rate, reversed"),
    (2, False, "abc", " by name"),
)
def test_rows_are_sorted_by_a_column_with_unknown_values_last(column, is_reversed, names, told):
    rows, text = sort_rows(ROWS, ("name", "rate"), column, is_reversed)
    assert ("".join(row["name"] for row in rows), text) == (names, told)


async def test_keys_choose_the_view_the_order_and_the_end():
    screen = _Screen(SimpleNamespace(), View.BROKERS, 1)
    for key in "tssr?":
        screen.press(key)
    assert (screen._view, screen._column, screen._is_reversed, screen._is_over) == (View.TOPICS, 1, True, False)
    screen.press("g")
    assert (screen._view, screen._column, screen._is_reversed) == (View.GROUPS, None, False)
    screen.press("q")
    assert screen._is_over


def test_on_a_terminal_it_is_live_until_q(rocketmq):
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (40, 160))
    command = [sys.executable, "-m", "orbitmq", "top", "-n", rocketmq.name_servers]
    # Where workers run tests, these two say something else than the terminal.
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "160", "LINES": "40"}
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    try:
        read_until(ours, b"broker-a")
        os.write(ours, b"t")
        read_until(ours, b"topics")
        os.write(ours, b"q")
        read_to_end(ours)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def read_until(terminal: int, text: bytes) -> None:
    shown, end_s = b"", time.monotonic() + READ_TIMEOUT_S
    while text not in shown:
        is_there = select.select([terminal], [], [], max(0, end_s - time.monotonic()))[0]
        assert is_there, f"{text!r} does not come after {shown[-2000:]!r}"
        shown += os.read(terminal, 65536)


def read_to_end(terminal: int) -> None:
    """Read what a program still draws: it ends when its terminal has taken that."""
    with suppress(OSError):  # so a terminal tells that nothing writes to it any more
        while select.select([terminal], [], [], READ_TIMEOUT_S)[0] and os.read(terminal, 65536):
            pass
