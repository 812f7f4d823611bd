import os
import signal
import threading
from importlib import import_module
from typing import Any

import pytest

from orbitmq.errors import ConnectionFailed
from orbitmq.model.route import MessageQueue

consume: Any = import_module("orbitmq.cli.messages.consume")


def test_tags_are_filtered(orbitmq, topic):
    for tag in ("a", "b", "c"):
        orbitmq("send", topic, f"of {tag}", "--tag", tag)
    assert sorted(orbitmq("consume", topic, "--tag", "a || c").out.splitlines()) == ["of a", "of c"]
    assert orbitmq("consume", topic, "--tag", "none").out == ""


def test_latest_starts_behind_what_is_there(orbitmq, topic):
    orbitmq("send", topic, "old")
    assert orbitmq("consume", topic, "--from", "latest").out == ""


def test_a_time_starts_at_the_first_message_stored_since(orbitmq, topic):
    orbitmq("send", topic, "old")
    (first,) = orbitmq("consume", topic, "-o", "json").json_lines
    later = first["stored_at_ms"] + 1
    orbitmq("send", topic, "new", "--count", 8)
    found = orbitmq("consume", topic, "--from", later).out.splitlines()
    assert "old" not in found
    assert orbitmq("consume", topic, "--from", "2001-01-01T00:00:00Z").out.count("\n") == 9


def test_count_stops_early_and_says_when_there_was_too_little(orbitmq, topic):
    orbitmq("send", topic, "x", "--count", 5)
    assert orbitmq("consume", topic, "--count", 2).out == "x\nx\n"
    assert orbitmq("consume", topic, "--count", 5).code == 0
    short = orbitmq("consume", topic, "--count", 9)
    assert (short.code, short.out) == (1, "x\n" * 5)
    assert "5 of 9" in short.err


def test_a_group_goes_on_where_it_was(orbitmq, topic):
    orbitmq("send", topic, "x", "--count", 5)
    group = f"g-{topic}"
    counts = [orbitmq("consume", topic, "--group", group, *extra).out.count("x") for extra in (("--count", 2), (), ())]
    assert counts == [2, 3, 0]
    assert orbitmq("consume", topic).out.count("x") == 5


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("consume", "t", "--from", "yesterday"), "--from"),
        (("consume", "t", "-F", "%z"), "%z"),
        (("consume", "t", "--count", "0"), "count"),
    ],
)
def test_usage_errors_name_what_is_wrong_and_end_with_2(orbitmq, arguments, named):
    result = orbitmq(*arguments)
    assert result.code == 2
    assert named in result.err
    assert "Traceback" not in result.err


def test_every_queue_is_printed_in_order_as_the_template_says(orbitmq, topic):
    for number in range(6):
        orbitmq("send", topic, str(number), "--sharding-key", str(number % 3))
    lines = [line.split() for line in orbitmq("consume", topic, "-F", r"%q %o %s\n").out.splitlines()]
    assert len(lines) == 6
    for queue in ("0", "1"):
        offsets = [int(offset) for line_queue, offset, _ in lines if line_queue == queue]
        assert offsets == list(range(len(offsets)))


def test_a_group_that_is_new_begins_where_from_says(orbitmq, topic):
    orbitmq("send", topic, "x", "--count", 5)
    assert orbitmq("consume", topic, "--group", f"g-{topic}", "--from", "latest").out == ""
    orbitmq("send", topic, "y", "--count", 2)
    assert orbitmq("consume", topic, "--group", f"g-{topic}").out == "y\ny\n"


def test_without_a_group_nothing_is_stored(orbitmq, topic):
    orbitmq("send", topic, "x")
    assert [orbitmq("consume", topic).out for _ in range(2)] == ["x\n"] * 2


def test_follow_waits_for_more_until_it_is_interrupted(orbitmq, topic, monkeypatch):
    orbitmq("send", topic, "1")
    written = []

    def write(messages, formatter):
        written.extend(message.body for message in messages)
        if len(written) == 1 and messages:
            threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGINT)).start()

    monkeypatch.setattr("orbitmq.cli.messages.consume._write", write)
    assert orbitmq("consume", topic, "--follow").code == 0
    assert written == [b"1"]


def test_an_interrupt_before_the_end_is_told(orbitmq, topic, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("orbitmq.cli.messages.consume._write", interrupt)
    orbitmq("send", topic, "1")
    assert orbitmq("consume", topic).code == 130


class FakeReader:
    """A PullConsumer of one queue that gives one message a poll, and notes what is committed."""

    queue = MessageQueue("orders", "broker-a", 0)
    assignment = frozenset({queue})

    def __init__(self, *, refused=0):
        self.given = 0
        self.commits = []
        self._refused = refused

    def position(self, queue):
        return {self.queue: self.given}.get(queue)

    async def poll(self, timeout_ms, count_max):
        self.given += 1
        return [f"message {self.given}"]

    async def commit(self, offsets):
        self._refused -= 1
        if self._refused >= 0:
            raise ConnectionFailed("nobody is there")
        self.commits.append(offsets[self.queue])


async def copy(reader, monkeypatch, count, *, writes=lambda messages: None):
    """Write `count` messages as members of a group do."""
    monkeypatch.setattr("orbitmq.cli.messages.consume._write", lambda messages, _formatter: writes(messages))
    return await consume._copy(reader, {}, bytes, count, is_group=True)


async def test_the_place_of_a_group_is_stored_now_and_then_and_at_the_end(monkeypatch):
    monkeypatch.setattr(consume, "COMMIT_INTERVAL_S", 0.0)
    reader = FakeReader()
    assert await copy(reader, monkeypatch, 3) == 3
    assert reader.commits == [1, 2, 3]


async def test_the_place_of_a_group_is_stored_once_when_little_time_has_passed(monkeypatch):
    monkeypatch.setattr(consume, "COMMIT_INTERVAL_S", 3600.0)
    reader = FakeReader()
    await copy(reader, monkeypatch, 3)
    assert reader.commits == [3]


async def test_what_could_not_be_written_is_not_stored_as_read(monkeypatch):
    def write(messages):
        if messages == ["message 3"]:
            raise BrokenPipeError

    reader = FakeReader()
    with pytest.raises(BrokenPipeError):
        await copy(reader, monkeypatch, 5, writes=write)
    assert reader.commits == [2]


async def test_a_place_that_a_broker_does_not_take_is_stored_later(monkeypatch, capsys):
    monkeypatch.setattr(consume, "COMMIT_INTERVAL_S", 0.0)
    reader = FakeReader(refused=1)
    await copy(reader, monkeypatch, 2)
    assert reader.commits == [2]
    assert "stored later: nobody is there" in capsys.readouterr().err
