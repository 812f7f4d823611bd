"""The forms in which `consume` writes one message."""

import json

import pytest

from cases import each_case
from orbitmq.cli.messages.message_format import format_json_line, parse_template
from orbitmq.errors import HeaderError, InvalidArgument
from orbitmq.model.message import StoredMessage


def stored(body=b"hello", **properties):
    return StoredMessage(
        topic="orders",
        body=body,
        properties={"TAGS": "new", "KEYS": "k1 k2", "UNIQ_KEY": "ID", **properties},
        queue_id=3,
        queue_offset=7,
        physical_offset=0,
        store_size=0,
        stored_at_ms=1_700_000_000_000,
        broker_name="broker-a",
    )


@each_case(
    (r"%s\n", b"hello\n"),
    (r"%q\x20%o\x0a", b"3 7\n"),
    (r"%t/%b/%q/%o", b"orders/broker-a/3/7"),
    (r"%k|%g|%i", b"k1 k2|new|ID"),
    (r"100%% \t\\ %T", b"100% \t\\ 2023-11-14T22:13:20.000Z"),
    ("caf\u00e9", "caf\u00e9".encode()),
    ("", b""),
)
def test_tokens(template, written):
    assert parse_template(template)(stored()) == written


def test_properties_come_as_json():
    assert json.loads(parse_template("%p")(stored(color="red")))["color"] == "red"


@each_case("%x", "abc%", r"\q", "abc\\")
def test_what_is_no_token_is_refused(template):
    with pytest.raises(InvalidArgument, match="format"):
        parse_template(template)


def test_a_body_goes_out_byte_for_byte():
    assert parse_template("%s")(stored(b"\xff\x00\n")) == b"\xff\x00\n"


def test_a_json_line_tells_everything_a_program_needs():
    line = format_json_line(stored())
    assert line.endswith(b"}\n")
    document = json.loads(line)
    assert (document["body"], document["queue"], document["offset"]) == ("hello", 3, 7)
    assert (document["keys"], document["tag"], document["message_id"]) == (["k1", "k2"], "new", "ID")


def test_a_body_that_is_no_text_comes_in_base64():
    document = json.loads(format_json_line(stored(b"\xff")))
    assert document["body_base64"] == "/w=="
    assert "body" not in document


def number_of(body):
    if not body.isdigit():
        raise HeaderError("no number")
    return {"number": int(body)}


def test_a_schema_adds_what_the_body_means_or_why_it_does_not_fit():
    assert json.loads(format_json_line(stored(b"7"), number_of))["decoded"] == {"number": 7}
    refused = json.loads(format_json_line(stored(b"x"), number_of))
    assert (refused["body"], refused["schema_error"], "decoded" in refused) == ("x", "no number", False)


def test_a_template_has_the_decoded_body_or_the_bytes_and_a_line_about_them(capsys):
    formatter = parse_template(r"%o %s", number_of)
    assert [formatter(stored(body)) for body in (b"7", b"x")] == [b'7 {"number":7}', b"7 x"]
    assert capsys.readouterr().err.endswith("queue 3 offset 7: no number\n")


def test_what_a_schema_makes_of_a_body_or_says_of_it_sends_no_control_characters_to_a_terminal(capsys):
    def refuse(_body):
        raise HeaderError("no type \x1b[2J")

    message = stored("\x9b2J".encode(), a="\x7f\x1b")
    shown = [
        format_json_line(message, lambda body: body.decode()),
        parse_template("%s %p", lambda body: body.decode())(message),
        capsys.readouterr().err.encode() if parse_template("%s", refuse)(message) else b"",
    ]
    assert json.loads(shown[0])["decoded"] == "\x9b2J"
    assert [text for text in shown if not text.decode().rstrip("\n").isprintable()] == []
