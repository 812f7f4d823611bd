"""The screen of a job; without a terminal it is plain lines."""

from __future__ import annotations

import pytest

from orbitmq.spark.jobs import screen as module
from orbitmq.spark.jobs.screen import Screen


class Time:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch):
    found = Time()
    monkeypatch.setattr(module, "time", found)
    return found


@pytest.fixture
def lines(capsys):
    """Return a function that gives the lines shown since it was called before."""
    return lambda: [line.strip() for line in capsys.readouterr().out.splitlines()]


def test_a_step_has_its_time(clock, lines):
    screen = Screen()
    clock.now += 2.5
    screen.step("starting Spark")

    assert lines() == ["2.5 s  starting Spark"]


def test_progress_is_a_line_every_two_seconds_and_one_at_the_end(clock, lines):
    with Screen().progress({"published": 5000, "read": 0}) as advance:
        advance("published", 100)
        clock.now += 1.9
        advance("published", 200)
        clock.now += 0.1
        advance("published", 300)
        advance("published", 5000)
        advance("published", 5000)
        advance("read", 0)

    assert [line.split("  ")[1] for line in lines()] == [
        "published: 100 of 5,000",
        "published: 300 of 5,000",
        "published: 5,000 of 5,000",
    ]


def test_a_table_shows_numbers_with_one_decimal(lines):
    Screen().table("Delays", ("carrier", "mean"), [["UA", 1234.56], ["EV", 7]])

    assert [line for line in lines() if "UA" in line] == ["│ UA      │ 1,234.6 │"]


def test_what_messages_and_brokers_say_is_shown_as_it_is(clock, lines):
    screen = Screen()
    screen.step("tried again: [x]busy[/]")
    screen.table("Letters of [/g]", ("reason [r]", "letters"), [["ValueError: no [/b]", "[a]"]])

    told = "\n".join(lines())
    for text in ("tried again: [x]busy[/]", "Letters of [/g]", "reason [r]", "ValueError: no [/b]", "[a]"):
        assert text in told
