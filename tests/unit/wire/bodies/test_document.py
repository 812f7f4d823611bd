"""JSON objects at the door: what is refused, with which words; and key-value tables."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import orjson
import pytest

from cases import each_case
from orbitmq.errors import HeaderError
from orbitmq.wire.bodies import document as document_module
from orbitmq.wire.bodies.document import (
    boolean,
    check_int32,
    flag,
    int32,
    items,
    number,
    parse_body,
    table_parts,
    text,
)


def parsed(body: bytes, **options: Any) -> Any:
    return parse_body("thing", body, lambda document: document["a"], **options)


def test_an_object_is_given_to_its_parser() -> None:
    assert parsed(b'{"a":1}') == 1


def test_an_object_of_the_greatest_size_is_parsed_and_one_byte_more_is_not() -> None:
    assert parsed(b'{"a":1}', size_max=7) == 1
    with pytest.raises(HeaderError, match="thing: 8 bytes to be parsed in one pass, limit 7"):
        parsed(b'{"a":1} ', size_max=7)


@each_case(
    (b"{", "thing: "), (b"[]", "thing: a JSON object is expected, not list"), (b"{}", "thing: the field 'a' is missing")
)
def test_what_is_not_the_object_that_was_meant_is_refused(body: bytes, words: str) -> None:
    with pytest.raises(HeaderError, match=words):
        parsed(body)


@each_case(TypeError, ValueError, AttributeError)
def test_a_field_that_cannot_be_used_is_refused(error: type[Exception]) -> None:
    def parse(_document: dict[str, Any]) -> None:
        raise error("no use")

    with pytest.raises(HeaderError, match=r"thing: .*no use"):
        parse_body("thing", b"{}", parse)


@each_case(*product([0, 1, 250, 251, 1_000], [True, False]))
def test_a_table_in_parts_is_the_whole_table(count: int, pretty: bool) -> None:
    table = {f"name {{}} {number}": {"number": number, "list": [], "object": {}} for number in range(count)}
    document = {"version": {"counter": 1}, "other": {}}
    parts = list(table_parts(document, "table", iter(table.items()), pretty=pretty))
    whole = orjson.dumps({**document, "table": table}, option=orjson.OPT_INDENT_2 if pretty else 0)
    assert b"".join(parts) == whole
    assert max(map(len, parts)) <= 50_000


def test_the_entries_of_a_table_are_asked_for_as_they_are_needed() -> None:
    entries = iter([(str(number), number) for number in range(1_000)])
    next(table_parts({}, "table", entries))
    assert 500 < len(list(entries)) < 1_000


@each_case(
    (text, ("a",), (1, None, [], b"a"), "text is expected"),
    (boolean, (True, False), (1, 0, None, "true", [1], {}), "true or false is expected"),
    (items, ([1],), (None, {}, "a", 1), "a list is expected"),
)
def test_a_value_is_of_its_kind_and_of_no_other(
    read: Callable[[Any], object], taken: tuple[object, ...], others: tuple[object, ...], told: str
) -> None:
    assert tuple(map(read, taken)) == taken
    for value in others:
        with pytest.raises(TypeError, match=told):
            read(value)


@each_case(
    *((value, True) for value in (True, 1, 1.5, "true", "TRUE", "1", "y", "T")),
    *((value, False) for value in (None, False, 0, 2, -1, 0.5, "", "null", "NULL", "false", "0", "N", "f")),
)
def test_a_flag_is_read_as_fastjson_reads_it(value: object, found: bool) -> None:
    assert flag(value) is found


@each_case("x", "7", "yes", " true", 2**31, -(2**31) - 1, 1e300, [], [1], {})
def test_a_flag_that_fastjson_cannot_read_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match="true or false is expected"):
        flag(value)


@each_case(
    ((" 5 ", "5 ", "1_000", "\u0663", "", "1e3", "0x10"), ValueError, "an integer is expected"),
    ((True, None, 1.5, [], {}), TypeError, "an integer is expected"),
    ((2**63, -(2**63) - 1, str(2**63)), ValueError, "out of the 64-bit range"),
)
def test_a_number_is_nothing_else(values: tuple[object, ...], error: type[Exception], told: str) -> None:
    for value in values:
        with pytest.raises(error, match=told):
            number(value)


@each_case((7, 7), ("7", 7), ("-7", -7), (2**63 - 1, 2**63 - 1), (-(2**63), -(2**63)))
def test_a_number_may_be_written_as_text(value: object, found: int) -> None:
    assert number(value) == found


def test_what_fits_into_32_bits_is_taken_and_nothing_else() -> None:
    assert [int32(value) for value in (2**31 - 1, -(2**31), "7")] == [2**31 - 1, -(2**31), 7]
    for value in (2**31, -(2**31) - 1):
        with pytest.raises(ValueError, match="32-bit"):
            int32(value)


def test_one_of_many_that_does_not_fit_is_enough() -> None:
    check_int32(())
    with pytest.raises(ValueError, match="32-bit range: 0 to 2147483648"):
        check_int32((0, 2**31, 5))


def test_a_table_round_trips() -> None:
    assert document_module.encode_kv_table({"a": "b"}) == b'{"table":{"a":"b"}}'
    assert document_module.decode_kv_table(b'{"table":{"a":"b"}}') == {"a": "b"}


@each_case(b"{}", b'{"table":null}')
def test_a_table_that_is_left_out_is_empty(body: bytes) -> None:
    assert document_module.decode_kv_table(body) == {}


@each_case(b"", b'{"table":[1]}', b'{"table":{"a":1}}')
def test_a_body_that_is_no_table_is_refused_by_name(body: bytes) -> None:
    with pytest.raises(HeaderError, match="key-value table"):
        document_module.decode_kv_table(body)
