"""Properties as one string with two separators, and tag codes, which are Java's String.hashCode."""

import pytest

from cases import each_case
from orbitmq.errors import InvalidArgument
from orbitmq.wire.messages.properties import find_property, format_properties, parse_properties, tag_code


def test_properties_are_name_0x01_value_0x02():
    assert format_properties({"TAGS": "a", "KEYS": "k 1"}) == b"TAGS\x01a\x02KEYS\x01k 1\x02"


def test_the_last_separator_may_be_missing():
    assert parse_properties(b"TAGS\x01a\x02KEYS\x01k") == {"TAGS": "a", "KEYS": "k"}


def test_text_parses_like_bytes():
    assert parse_properties("TAGS\x01ä") == parse_properties("TAGS\x01ä".encode()) == {"TAGS": "ä"}


@each_case(b"", b"\x01", b"a\x01", b"\x01b", b"ab", b"abcdef", b"\x01bcdef")
def test_pairs_without_a_name_or_a_value_are_left_out(pair):
    assert parse_properties(pair + b"\x02TAGS\x01a\x02") == {"TAGS": "a"}


def test_a_value_keeps_a_second_name_separator():
    assert parse_properties(b"a\x01b\x01c\x02") == {"a": "b\x01c"}


def test_bytes_that_are_no_utf8_are_not_hidden():
    with pytest.raises(UnicodeDecodeError):
        parse_properties(b"a\x01\xff\x02")


def test_a_value_may_hold_what_ends_a_name_so_that_what_was_parsed_can_be_formatted():
    encoded = b"K\x01v\x01w\x02TAGS\x01a\x02"
    assert format_properties(parse_properties(encoded)) == encoded


def test_half_a_character_is_refused():
    with pytest.raises(InvalidArgument, match="UTF-8"):
        format_properties({"a": "\udcff"})


@each_case({"a\x01": "b"}, {"a": "b\x02"}, {"a\x02": "b"})
def test_separators_inside_names_and_values_are_refused(bad):
    with pytest.raises(InvalidArgument, match="0x01 or 0x02"):
        format_properties(bad)


def test_the_encoded_size_fits_a_signed_short():
    assert len(format_properties({"a": "b" * 32764})) == 32767
    with pytest.raises(InvalidArgument, match="at most 32767"):
        format_properties({"a": "b" * 32765})


@each_case(
    (b"", None),
    (b"TAGS\x01a\x02", b"a"),
    (b"TAGS\x01a", b"a"),
    (b"KEYS\x01k\x02TAGS\x01a\x02X\x01y\x02", b"a"),
    (b"MYTAGS\x01a\x02", None),
    (b"k\x01TAGS\x01a\x02", None),
    (b"TAGS\x01a\x02MYTAGS\x01b\x02", b"a"),
    (b"TAGS\x01\x02", None),
    (b"TAGS\x01a\x02TAGS\x01\x02", b"a"),
    (b"TAGS\x01a\x02TAGS\x01b\x02", b"b"),
)
def test_one_property_is_found_without_parsing_the_others(encoded, found):
    assert find_property(encoded, b"TAGS") == found


@each_case(
    ("", 0),
    ("a", 97),
    ("TagA", 2598919),
    ("hello", 99162322),
    ("polygenelubricants", -2147483648),  # the famous hash of Integer.MIN_VALUE
    ("标签", 857175),
    ("\U0001f600", 1772899),  # two UTF-16 units
)
def test_a_tag_code_is_javas_string_hash(tag, code):
    assert tag_code(tag) == code
