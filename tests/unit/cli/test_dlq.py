"""`orbitmq dlq …`: what a group could not process."""

import asyncio
import os
import signal

import pytest

from orbitmq.client.producer import Producer
from orbitmq.errors import SendFailed
from orbitmq.net.loop import run
from unit.admin.support import bury


@pytest.fixture
def buried(orbitmq, topic, rocketmq_session):
    """A group of this test's own with three dead letters: its name and the ids of the messages that it was given."""
    group = f"g-{topic}"[:100]
    names = rocketmq_session.name_servers
    ids = run(
        bury(names, rocketmq_session.brokers, group, topic, b"one", b"two \x1b[31m", b"three", tag="t", keys=["k"])
    )
    return group, ids


def test_groups_with_dead_letters_are_listed(orbitmq, buried):
    group, _ = buried
    found = orbitmq("dlq", "list")
    (row,) = [row for row in found.rows if row[0] == group]
    assert row[1] == "3"
    assert row[2].startswith("20")
    (entry,) = [entry for entry in orbitmq("dlq", "list", "-o", "json").json if entry["group"] == group]
    assert (entry["count"], entry["problem"]) == (3, None)


def test_letters_are_shown_with_their_origin(orbitmq, buried, topic):
    group, ids = buried
    rows = orbitmq("dlq", "show", group).rows
    assert [row[0] for row in rows] == [f"broker-a:0:{number}" for number in range(3)]
    assert [row[1:3] for row in rows] == [[topic, one] for one in ids]
    assert [(row[4], row[6], row[7]) for row in rows] == [("1", "t", "k")] * 3
    assert [row[8] for row in rows] == ["one", "two", "three"]
    lines = orbitmq("dlq", "show", group, "-o", "json").json_lines
    assert [line["body"] for line in lines] == ["one", "two \x1b[31m", "three"]
    assert {line["origin_topic"] for line in lines} == {topic}


@pytest.mark.parametrize(
    ("options", "offsets"),
    [
        (("--count", 1), [0]),
        (("--from", 1), [1, 2]),
        (("--to", 2), [0, 1]),
        (("--from", "broker-a:0:2"), [2]),
        (("--from", "broker-b:0:0"), []),
        (("--broker", "broker-a"), [0, 1, 2]),
        (("--broker", "broker-z"), []),
    ],
)
def test_letters_are_chosen(orbitmq, buried, options, offsets):
    rows = orbitmq("dlq", "show", buried[0], *options).rows
    assert [row[0] for row in rows] == [f"broker-a:0:{offset}" for offset in offsets]


def test_a_resend_prints_each_letter_and_where_the_next_one_is(orbitmq, buried, topic):
    group, ids = buried
    found = orbitmq("dlq", "resend", group, "--count", 2, "-o", "json")
    assert [(line["place"], line["topic"], line["origin_id"], line["status"]) for line in found.json_lines] == [
        (f"broker-a:0:{number}", topic, ids[number], "SEND_OK") for number in range(2)
    ]
    assert found.err == "2 dead letters sent; go on with --from broker-a:0:2\n"
    rest = orbitmq("dlq", "resend", group, "--from", "broker-a:0:2")
    assert [line.split()[:3] for line in rest.out.splitlines()] == [["broker-a:0:2", topic, ids[2]]]
    bodies = orbitmq("consume", topic).out
    assert sorted(bodies.splitlines()) == sorted(["one", "two \x1b[31m", "three"] * 2)


def test_a_second_resend_sends_what_the_first_one_has_not(orbitmq, buried):
    group, _ = buried
    assert orbitmq("dlq", "resend", group, "--count", 1).code == 0
    assert len(orbitmq("dlq", "resend", group, "--dry-run").out.splitlines()) == 2
    assert [line.split()[0] for line in orbitmq("dlq", "resend", group).out.splitlines()] == [
        "broker-a:0:1",
        "broker-a:0:2",
    ]
    nothing = orbitmq("dlq", "resend", group)
    assert (nothing.code, nothing.out, nothing.err) == (0, "", "0 dead letters sent\n")
    assert len(orbitmq("dlq", "resend", group, "--again").out.splitlines()) == 3


@pytest.mark.parametrize("end", ["yesterday", "-1", "1.5"])
def test_an_end_that_is_no_offset_is_refused_with_what_is_one(orbitmq, end):
    refused = orbitmq("dlq", "show", "g", "--to", end)
    assert refused.code == 2
    assert f"{end!r} is not an offset: a whole number from 0 on" in refused.err


def test_a_dry_run_sends_nothing(orbitmq, buried, topic):
    found = orbitmq("dlq", "resend", buried[0], "--dry-run", "--topic", "elsewhere")
    assert [line.split()[1] for line in found.out.splitlines()] == ["elsewhere"] * 3
    assert found.err.startswith("3 dead letters would be sent")
    assert len(orbitmq("consume", topic).out.splitlines()) == 3


def test_ids_that_are_not_there_make_the_answer_no(orbitmq, buried):
    group, ids = buried
    found = orbitmq("dlq", "resend", group, "--id", ids[1], "--id", "nowhere")
    assert (found.code, len(found.out.splitlines())) == (1, 1)
    assert "1 of 2 ids were found" in found.err
    assert orbitmq("dlq", "resend", group, "--id", ids[2], "--dry-run").code == 0


@pytest.mark.parametrize(("is_interrupted", "code"), [(False, 1), (True, 130)])
def test_a_stopped_call_is_told_where_to_go_on(orbitmq, buried, monkeypatch, is_interrupted, code):
    send = Producer.send

    async def stop_at_the_second(self, message, **settings):
        if message.body == b"one":
            return await send(self, message, **settings)
        if is_interrupted:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.Event().wait()
        raise SendFailed("no disk")

    monkeypatch.setattr(Producer, "send", stop_at_the_second)
    found = orbitmq("dlq", "resend", buried[0])
    assert found.code == code
    assert len(found.out.splitlines()) == 1
    assert "1 dead letters were sent before that; go on with --from broker-a:0:1" in found.err


def test_a_group_without_letters_is_an_answer_of_no(orbitmq, topic):
    found = orbitmq("dlq", "show", f"nobody-{topic}"[:100])
    assert found.code == 1
    assert found.err.startswith("orbitmq: the group ")
    assert "has no dead letters" in found.err
    assert "Traceback" not in found.err


def test_what_cannot_be_read_is_said_and_listed(orbitmq, buried):
    group, _ = buried
    orbitmq("topic", "create", f"%DLQ%{group}", "--queues", 1, "--permission", "w")
    try:
        listed, shown = orbitmq("dlq", "list"), orbitmq("dlq", "show", group)
        assert [group, "3"] in [row[:2] for row in listed.rows]
        for found in (listed, shown):
            assert found.code == 1
            assert "cannot be read on broker-a: the topic is write-only there" in found.err
    finally:
        orbitmq("topic", "create", f"%DLQ%{group}", "--queues", 1)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--from", "somewhere"), "--from"),
        (("--from", "broker-a:0"), "--from"),
        (("--from", "²"), "--from"),
        (("--to", "-1"), "--to"),
        (("--count", "0"), "--count"),
    ],
)
def test_usage_errors_name_the_option(orbitmq, options, named):
    found = orbitmq("dlq", "resend", "g", *options)
    assert found.code == 2
    assert named in found.err


def test_control_characters_of_strangers_are_escaped(orbitmq, topic, rocketmq_session):
    group = f"e-{topic}"[:100]
    run(bury(rocketmq_session.name_servers, rocketmq_session.brokers, group, topic, b"x", tag="\x1b[31mred"))
    shown = orbitmq("dlq", "show", group).out
    assert "\x1b" not in shown
    assert r"\x1b[31mred" in shown
