"""`orbitmq group lag --watch`."""

from __future__ import annotations

import sys

import pytest

from orbitmq.cli import group_lag as module
from orbitmq.cli.group_lag import LagPlan
from orbitmq.cli.terminal.output import Format
from orbitmq.model.route import MessageQueue
from orbitmq.monitoring.lag_samples import UNKNOWN, GroupPosition, LagSample

QUEUE = MessageQueue("t", "a", 0)
COLUMNS = ["TIME", "TOPIC", "BROKER", "QUEUE", "COMMITTED", "END", "LAG"]


@pytest.fixture
def asked(monkeypatch):
    """Return the arguments of the watch."""
    found: list[tuple] = []
    monkeypatch.setattr(module, "watch", lambda access, *arguments: found.append(arguments))
    return found


def test_options_become_a_plan(orbitmq, asked, tmp_path):
    words = ("--topic", "t", "--every", "0.5", "--count", 7, "--to", tmp_path, "-o", "json")
    assert orbitmq("group", "lag", "g", "--watch", *words).code == 0
    assert asked == [(LagPlan("g", "t", 0.5, 7), tmp_path, Format.JSON)]


def test_a_watch_looks_every_ten_seconds_until_it_is_ended(orbitmq, asked):
    assert orbitmq("group", "lag", "g", "--watch").code == 0
    assert asked == [(LagPlan("g", None, 10.0, None), None, Format.TABLE)]


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("g", "--watch", "--count", 0), "--count"),
        (("g", "--watch", "--every", 0), "--every"),
        (("g", "--watch", "--every", "nan"), "--every"),
        (("g", "--watch", "--to", __file__), "--to"),
        (("g", "--count", 2), "--watch"),
        (("g", "--to", "d"), "--watch"),
        (("--watch",), "GROUP"),
    ],
)
def test_a_watch_that_cannot_be_is_refused(orbitmq, asked, words, named):
    refused = orbitmq("group", "lag", *words)
    assert (refused.code, named in refused.err) == (2, True)
    assert not asked


def test_a_directory_needs_a_topic_and_matplotlib(orbitmq, monkeypatch, tmp_path):
    refused = orbitmq("group", "lag", "g", "--watch", "--to", tmp_path / "d")
    assert (refused.code, "say which with --topic" in refused.err) == (2, True)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    refused = orbitmq("group", "lag", "g", "--topic", "t", "--watch", "--to", tmp_path / "d")
    assert (refused.code, "pip install matplotlib" in refused.err) == (2, True)
    assert not (tmp_path / "d").exists()


def consume(orbitmq, topic):
    assert orbitmq("send", topic, "x", "--count", 5).code == 0
    assert orbitmq("consume", topic, "--group", topic).code == 0


def test_a_pipe_gets_a_line_for_each_queue_and_moment_under_one_header(orbitmq, topic):
    consume(orbitmq, topic)
    watched = orbitmq("group", "lag", topic, "--watch", "--every", "0.1", "--count", 3)
    header, *lines = [line.split() for line in watched.out.splitlines()]
    assert (watched.code, header) == (0, COLUMNS)
    assert [(line[1], line[-1]) for line in lines if line[1] == topic] == [(topic, "0")] * 6
    assert len({line[0] for line in lines}) == 3


def test_a_queue_without_an_offset_is_a_question_mark_and_null(orbitmq, topic):
    watched = orbitmq("group", "lag", "nowhere", "--topic", topic, "--watch", "--count", 1)
    assert [row[4:] for row in watched.rows] == [["?", "0", "?"]] * 2
    (sample,) = orbitmq("group", "lag", "nowhere", "-t", topic, "--watch", "--count", 1, "-o", "json").json_lines
    assert [(queue["committed"], queue["end"], queue["lag"]) for queue in sample["queues"]] == [(None, 0, None)] * 2
    assert sample["trouble"] is None


def test_programs_get_a_document_for_each_moment(orbitmq, topic, tmp_path):
    consume(orbitmq, topic)
    words = ("--topic", topic, "--watch", "--every", "0.1", "--count", 2, "--to", tmp_path / "d", "-o", "json")
    samples = orbitmq("group", "lag", topic, *words).json_lines
    assert [len(sample["queues"]) for sample in samples] == [2, 2]


def test_a_group_that_has_been_nowhere_is_said_once(orbitmq):
    watched = orbitmq("group", "lag", "nowhere", "--watch")
    assert (watched.code, "no broker knows where group nowhere is" in watched.err) == (1, True)


def test_a_terminal_shows_the_newest_sample_in_its_place(monkeypatch, capsys):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    with module._screen(Format.TABLE) as show:
        show(LagSample(1, {QUEUE: GroupPosition(3, 10)}, None))
        show(LagSample(2, {MessageQueue("t", "[red]a\x07", 0): UNKNOWN}, "no answer"))
    shown = capsys.readouterr().out
    assert shown.count("committed") >= 1
    assert r"[red]a\x07" in shown
    assert "?" in shown


def test_why_a_moment_is_unknown_is_said_when_it_begins(orbitmq, monkeypatch):
    issues = [None, "gone", "gone", None, "gone"]

    async def watch_lag(*_):
        for at_ms, issue in enumerate(issues, 1):
            yield LagSample(at_ms, {QUEUE: UNKNOWN}, issue)

    monkeypatch.setattr("orbitmq.monitoring.lag_watch.watch_lag", watch_lag)
    assert orbitmq("group", "lag", "g", "--watch", "--count", 5).err.splitlines() == ["unknown: gone"] * 2
