"""`orbitmq send` and `orbitmq consume`, one against the other."""

import os

import pytest


@pytest.fixture
def stdin(monkeypatch, tmp_path):
    """Let the next command read these bytes: from a file, or from a pipe."""
    opened = []

    def provide(content, *, is_pipe):
        if is_pipe:
            reader, writer = os.pipe()
            os.write(writer, content)
            os.close(writer)
        else:
            (tmp_path / "in").write_bytes(content)
            reader = os.open(tmp_path / "in", os.O_RDONLY)
        opened.append(os.fdopen(reader, "rb"))
        monkeypatch.setattr("sys.stdin", opened[-1])

    yield provide
    for file in opened:
        file.close()


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
        (("send", "t", "x", "-p", "no-equals"), "NAME=VALUE"),
        (("send", "t", "x", "--file", "f"), "--file"),
        (("send", "a b", "x"), "topic"),
        (("send", "t", "x", "--key", "two words"), "keys"),
        (("send", "t", "x", "-n", "nonsense:port"), "nonsense:port"),
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
