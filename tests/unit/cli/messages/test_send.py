"""`orbitmq send`, and the lines that it reads from standard input."""

import json
import os

import pytest

from orbitmq.cli.messages.send import READ_SIZE, ResultPrinter, read_stdin
from orbitmq.cli.terminal.output import Format
from orbitmq.client.producer import Producer
from orbitmq.client.send.request import encode_message
from orbitmq.client.send.result import SendResult, SendStatus
from orbitmq.errors import RequestTimeout
from orbitmq.model.route import MessageQueue
from orbitmq.wire.messages.properties import parse_properties

SENT = SendResult("ID", "OFFSET-ID", MessageQueue("t", "broker-a", 3), 40, SendStatus.SEND_OK)


def test_one_message_is_a_row(capsys):
    printer = ResultPrinter(Format.TABLE, is_summary=False)
    printer.show([SENT])
    printer.finish()
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["MESSAGE_ID", "BROKER", "QUEUE", "OFFSET", "STATUS"],
        ["ID", "broker-a", "3", "40", "SEND_OK"],
    ]


def test_many_messages_are_a_number(capsys):
    printer = ResultPrinter(Format.TABLE, is_summary=True)
    printer.show([SENT] * 2)
    printer.show([SENT])
    printer.finish()
    out, err = capsys.readouterr()
    assert (out, printer.count) == ("", 3)
    assert err.startswith("sent 3 messages in 0.")


def test_programs_get_an_object_a_line(capsys):
    printer = ResultPrinter(Format.JSON, is_summary=False)
    printer.show([SENT, SENT])
    printer.finish()
    out, err = capsys.readouterr()
    rows = [json.loads(line) for line in out.splitlines()]
    assert (
        rows
        == [
            {
                "message_id": "ID",
                "offset_message_id": "OFFSET-ID",
                "topic": "t",
                "broker": "broker-a",
                "queue": 3,
                "offset": 40,
                "status": "SEND_OK",
            }
        ]
        * 2
    )
    assert err == ""


def test_what_went_through_is_printed_before_the_first_failure_is_raised(capsys):
    printer = ResultPrinter(Format.TABLE, is_summary=False)
    first, second = RequestTimeout("first"), RequestTimeout("second")
    with pytest.raises(RequestTimeout, match="first"):
        printer.show([first, SENT, second])
    assert "SEND_OK" in capsys.readouterr().out
    assert printer.count == 1


def test_nothing_sent_prints_no_empty_table(capsys):
    printer = ResultPrinter(Format.TABLE, is_summary=False)
    printer.show([])
    assert capsys.readouterr().out == ""


def test_a_delayed_message_shows_what_it_is_taken_back_with(capsys):
    delayed = SENT._replace(recall_handle="aGFuZGxl")
    ResultPrinter(Format.TABLE, is_summary=False).show([delayed])
    assert [line.split()[-1] for line in capsys.readouterr().out.splitlines()] == ["RECALL_HANDLE", "aGFuZGxl"]
    ResultPrinter(Format.JSON, is_summary=True).show([delayed])
    assert json.loads(capsys.readouterr().out)["recall_handle"] == "aGFuZGxl"


def test_what_was_sent_is_consumed(orbitmq, topic):
    sent = orbitmq("send", topic, "hello", "--tag", "new", "--key", "k1", "--key", "k2", "-p", "color=red=ish")
    assert sent.code == 0
    assert sent.rows[0][-1] == "SEND_OK"
    (message,) = orbitmq("consume", topic, "-o", "json").json_lines
    assert message["body"] == "hello"
    assert (message["tag"], message["keys"]) == ("new", ["k1", "k2"])
    assert message["properties"]["color"] == "red=ish"
    assert message["message_id"] == sent.rows[0][0]


def test_a_body_need_not_be_text(orbitmq, topic):
    assert orbitmq("send", topic, os.fsdecode(b"\xffx\xfe")).code == 0
    assert orbitmq("consume", topic).raw == b"\xffx\xfe\n"


def test_results_for_programs_are_json_lines(orbitmq, topic):
    results = orbitmq("send", topic, "x", "--count", 3, "-o", "json").json_lines
    assert len({row["message_id"] for row in results}) == 3
    assert {row["status"] for row in results} == {"SEND_OK"}


@pytest.mark.parametrize("is_pipe", [True, False])
def test_every_line_of_stdin_is_a_message(orbitmq, topic, stdin, is_pipe):
    stdin(b"one\ntwo\r\n\nfour", is_pipe=is_pipe)
    sent = orbitmq("send", topic)
    assert sent.out == ""
    assert "sent 4 messages" in sent.err
    assert sorted(orbitmq("consume", topic).out.splitlines()) == ["", "four", "one", "two"]


def test_an_empty_stdin_sends_nothing(orbitmq, topic, stdin):
    stdin(b"", is_pipe=True)
    assert "sent 0 messages" in orbitmq("send", topic).err


def test_a_file_is_one_message_byte_for_byte(orbitmq, topic, tmp_path):
    content = bytes(range(256)) * 40
    (tmp_path / "blob").write_bytes(content)
    assert orbitmq("send", topic, "--file", tmp_path / "blob").code == 0
    assert orbitmq("consume", topic, "-F", "%s").raw == content


def test_messages_of_one_sharding_key_go_to_one_queue_in_order(orbitmq, topic, stdin):
    stdin(b"\n".join(b"%d" % number for number in range(200)), is_pipe=True)
    orbitmq("send", topic, "--sharding-key", "customer-7")
    lines = orbitmq("consume", topic, "-F", r"%q %s\n").out.splitlines()
    assert len({line.split()[0] for line in lines}) == 1
    assert [int(line.split()[1]) for line in lines] == list(range(200))


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("send", "t", "x", "-p", "no-equals"), "NAME=VALUE"),
        (("send", "t", "x", "--file", "f"), "--file"),
        (("send", "a b", "x"), "topic"),
        (("send", "t", "x", "--key", "two words"), "keys"),
        (("send", "t", "x", "-n", "nonsense:port"), "nonsense:port"),
    ],
)
def test_usage_errors_name_what_is_wrong_and_end_with_2(orbitmq, arguments, named):
    result = orbitmq(*arguments)
    assert result.code == 2
    assert named in result.err
    assert "Traceback" not in result.err


def test_an_id_an_offset_and_a_queue_are_told_for_each_message(orbitmq, topic):
    result = orbitmq("send", topic, "x")
    assert result.out.splitlines()[0].split() == ["MESSAGE_ID", "BROKER", "QUEUE", "OFFSET", "STATUS"]
    assert result.rows[0][1:] == ["broker-a", result.rows[0][2], "0", "SEND_OK"]
    assert result.err == ""


def test_count_sends_each_message_so_many_times_and_sums_up(orbitmq, topic, stdin):
    stdin(b"a\nb\n", is_pipe=True)
    result = orbitmq("send", topic, "--count", 70)
    assert (result.out, result.err[:18]) == ("", "sent 140 messages ")
    lines = orbitmq("consume", topic).out.splitlines()
    assert (lines.count("a"), lines.count("b")) == (70, 70)


def test_a_message_that_fails_ends_the_command_after_those_that_went_through(orbitmq, topic, stdin):
    stdin(b"good\n" + bytes(4 * 1024 * 1024 + 1) + b"\n", is_pipe=False)
    result = orbitmq("send", topic)
    assert result.code == 2
    assert "sent 1 messages" in result.err
    assert orbitmq("consume", topic).out == "good\n"


def test_a_group_and_a_time_out_are_those_of_the_options(orbitmq, topic, monkeypatch):
    made = []

    class Noted(Producer):
        def __init__(self, group, name_servers, **settings):
            made.append((group, settings["send_timeout_ms"]))
            super().__init__(group, name_servers, **settings)

    monkeypatch.setattr("orbitmq.client.producer.Producer", Noted)
    orbitmq("send", topic, "x", "--group", "makers", "--timeout-ms", 5000)
    orbitmq("send", topic, "x")
    assert made == [("makers", 5000), ("orbitmq-cli", 3000)]


@pytest.mark.parametrize(
    ("options", "name", "value"),
    [
        (("--delay", "1s"), "TIMER_DELAY_MS", "1000"),
        (("--deliver-at", "1970-01-01T00:00:01"), "TIMER_DELIVER_MS", "1000"),
        (("--delay-level", 1), "DELAY", "1"),
    ],
)
def test_a_message_is_delivered_later_where_that_is_asked_for(orbitmq, topic, monkeypatch, options, name, value):
    sent = []

    class Noted(Producer):
        async def send(self, message, **options):
            sent.append(parse_properties(encode_message(message, "ID", 4_096).properties))
            return await super().send(message, **options)

    monkeypatch.setattr("orbitmq.client.producer.Producer", Noted)
    assert orbitmq("send", topic, "later", *options).code == 0
    (properties,) = sent
    assert {key: properties[key] for key in properties if "DEL" in key} == {name: value}


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--delay", "90"), "--delay"),
        (("--deliver-at", "10m"), "--deliver-at"),
        (("--delay-level", 0), "--delay-level"),
        (("--delay-level", 1_001), "delay_level"),
        (("--delay", "1s", "--delay-level", 1), "--delay-level"),
        (("--delay", "1s", "--deliver-at", "2026-11-21"), "--deliver-at"),
    ],
)
def test_a_delay_that_cannot_be_is_refused_before_anything_is_sent(orbitmq, topic, options, named):
    result = orbitmq("send", topic, "x", *options)
    assert (result.code, result.out) == (2, "")
    assert named in result.err
    assert orbitmq("consume", topic).out == ""


async def lines():
    return [line async for group in read_stdin() for line in group]


@pytest.mark.parametrize("is_pipe", [True, False])
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b"one", [b"one"]),
        (b"one\n", [b"one"]),
        (b"one\r\ntwo\r", [b"one", b"two\r"]),
        (b"\n\n", [b"", b""]),
        (b"\xff\x00\n", [b"\xff\x00"]),
    ],
)
async def test_lines_end_with_a_line_feed_or_with_the_input(stdin, is_pipe, content, expected):
    stdin(content, is_pipe=is_pipe)
    assert await lines() == expected


async def test_a_line_may_be_longer_than_one_read(stdin):
    stdin(b"x" * (2 * READ_SIZE) + b"\ny\n", is_pipe=False)
    assert await lines() == [b"x" * (2 * READ_SIZE), b"y"]


async def test_lines_come_as_soon_as_they_are_whole(monkeypatch):
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as file:
        monkeypatch.setattr("sys.stdin", file)
        groups = aiter(read_stdin())
        os.write(writer, b"one\ntw")
        assert await anext(groups) == [b"one"]
        os.write(writer, b"o\n")
        assert await anext(groups) == [b"two"]
        os.close(writer)
        assert [group async for group in groups] == []
