"""The printed forms of a record."""

from __future__ import annotations

from orbitmq.cli.store.record_format import COLUMNS, format_document, format_line
from orbitmq.wire.messages.record import Record, format_record, parse_record


def record(body: bytes = b"hello", properties: bytes = b"TAGS\x01new\x02KEYS\x01a b\x02") -> Record:
    found = parse_record(
        format_record(topic="orders", body=body, properties=properties, queue_id=3, queue_offset=7, stored_at_ms=1000)
    )
    assert isinstance(found, Record)
    return found


def test_a_line_has_a_word_for_each_column() -> None:
    words = format_line(record(), with_body=False).split("  ")
    assert len(words) == len(COLUMNS)
    assert words[2:] == ["orders", "3", "7", "1970-01-01T00:00:01.000Z", "5", "new", "a b"]
    assert format_line(record(), with_body=True).endswith("  hello")


def test_what_is_missing_is_a_dash() -> None:
    assert format_line(record(properties=b""), with_body=False).split()[-2:] == ["-", "-"]


def test_a_body_that_is_no_text_is_given_in_base64() -> None:
    assert format_document(record(b"\xff"), with_body=True)["body_base64"] == "/w=="
    assert format_document(record(), with_body=True)["body"] == "hello"


def test_properties_that_are_no_text_are_escaped() -> None:
    assert format_document(record(properties=b"a\xff\x01b\x02c"), with_body=False)["properties"] == {
        r"a\xff": "b",
        "c": "",
    }
