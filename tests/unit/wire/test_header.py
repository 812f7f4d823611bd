"""Headers: their fields, and their families, found by name."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from itertools import product

import pytest

from cases import each_case
from orbitmq.codes import RequestCode
from orbitmq.errors import HeaderError
from orbitmq.wire import headers
from orbitmq.wire.command import FLAG_ONEWAY, Command, SerializeType, decode_command, encode_command, encode_response
from orbitmq.wire.frame import Frame, FrameDecoder
from orbitmq.wire.header import (
    PROBE,
    TEXT_SIZE_MAX,
    bound_codes,
    code_of,
    cut_answer,
    decode_header,
    encode_header,
    format_bool,
    is_plain_opaque,
    parse_bool,
    parse_int32,
    parse_int64,
    request,
    request_type,
    split_header,
)

SEND = headers.SendMessageV2(
    producer_group="g",
    topic="t",
    default_topic="TBW102",
    default_topic_queue_nums=4,
    queue_id=-1,
    sys_flag=0,
    born_at_ms=1_700_000_000_000,
    flag=0,
    properties="A\x01b\x02",
    batch=True,
)


def test_a_header_round_trips_through_its_wire_names():
    fields = encode_header(SEND)
    assert fields["a"] == "g"
    assert fields["e"] == "-1"
    assert fields["m"] == "true"
    assert "j" not in fields
    assert decode_header(headers.SendMessageV2, fields) == SEND


def test_camel_case_is_derived():
    fields = encode_header(headers.GetRouteInfo(topic="t", accept_standard_json_only=True))
    assert fields == {"topic": "t", "acceptStandardJsonOnly": "true"}


@each_case(
    ({"b": None}, "the field b is missing"),
    ({"e": "x"}, "the field e is 'x', expected a 32-bit integer"),
    ({"e": "2147483648"}, "32-bit"),
    ({"g": "9223372036854775808"}, "64-bit"),
    ({"e": "9" * 5000}, "32-bit"),
)
def test_a_bad_field_is_named_with_its_value_and_what_was_expected(change, words):
    fields = {name: value for name, value in (encode_header(SEND) | change).items() if value is not None}
    with pytest.raises(HeaderError, match=words):
        decode_header(headers.SendMessageV2, fields)


def test_missing_ext_fields_count_as_none():
    assert decode_header(headers.GetClusterInfo, None) == headers.GetClusterInfo()
    with pytest.raises(HeaderError):
        decode_header(headers.GetRouteInfo, None)


def test_binding_a_code_twice_fails():
    with pytest.raises(TypeError, match="105"):

        @request(RequestCode.GET_ROUTEINFO_BY_TOPIC)
        class Twice:
            topic: str


def test_a_derived_header_has_a_code_of_its_own():
    headers.load_all()
    assert code_of(headers.SendBatch) == RequestCode.SEND_BATCH_MESSAGE
    assert request_type(RequestCode.LITE_PULL_MESSAGE) is headers.LitePullMessage
    assert set(bound_codes()) <= set(RequestCode)


def test_a_decoded_header_is_equal_to_a_made_one_and_to_no_other():
    decoded = decode_header(headers.GetRouteInfo, {"topic": "orders"})
    others: list[object] = [
        headers.GetRouteInfo(topic="orders", accept_standard_json_only=True),
        headers.GetTopicStats(topic="orders"),
    ]

    assert {decoded} == {headers.GetRouteInfo(topic="orders")}
    assert decoded not in others
    assert repr(decoded).startswith("GetRouteInfo(topic='orders', accept_standard_json_only=None, ")


def test_a_derived_header_is_equal_when_all_its_fields_are():
    one, other = (headers.ForwardedGetMaxOffset(topic="t", queue_id=0, broker_name=name) for name in "ab")
    assert (one == one, one == other) == (True, False)
    assert "broker_name='b'" in repr(other)


@each_case((parse_int32, 32, 2**31), (parse_int64, 64, 2**63))
def test_a_number_has_javas_range(parse, bits, end):
    assert [parse("7"), parse(str(end - 1)), parse(str(-end))] == [7, end - 1, -end]
    for number in (end, -end - 1):
        with pytest.raises(ValueError, match=f"{bits}-bit"):
            parse(str(number))


@each_case(("true", True), ("True", True), ("false", False), ("yes", False))
def test_a_boolean_is_parsed_as_java_does(text, value):
    assert parse_bool(text) is value
    assert [format_bool(True), format_bool(False)] == ["true", "false"]


@each_case(("e", 2**31 - 1), ("e", -(2**31)), ("g", 2**63 - 1), ("g", -(2**63)))
def test_the_ends_of_a_fields_range_are_in_it(name, number):
    fields = {**encode_header(SEND), name: str(number)}
    decoded = decode_header(headers.SendMessageV2, fields)
    assert number in (decoded.queue_id, decoded.born_at_ms)
    with pytest.raises(HeaderError, match="-bit integer"):
        decode_header(headers.SendMessageV2, {**fields, name: str(number + (1 if number > 0 else -1))})


def test_what_is_no_header_is_not_decoded():
    with pytest.raises(TypeError, match="str is not a header"):
        decode_header(str, {})


def test_a_code_without_a_header_has_no_type():
    assert request_type(32001) is None


FAMILIES = ("access", "admin", "controller", "groups", "nameserver", "offsets", "pop", "pull", "send", "topics")


@each_case(*FAMILIES)
def test_each_header_of_a_family_is_found_in_the_package(family: str) -> None:
    module = import_module(f"orbitmq.wire.headers.{family}")
    assert module.__all__
    for name in module.__all__:
        assert getattr(headers, name) is getattr(module, name)


@each_case("NoSuchHeader", "no_such_function", "")
def test_a_name_of_no_family_is_no_attribute(name: str) -> None:
    with pytest.raises(AttributeError, match=f"no attribute '{name}'"):
        getattr(headers, name)


@pytest.mark.real
def test_loading_all_binds_the_codes_of_each_family() -> None:
    # In a process of its own: this one has loaded every family long ago.
    code = "from orbitmq.wire import header, headers; headers.load_all(); print(*header.bound_codes())"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    # One code of each: broker configuration, heartbeat, KV, route, offset, pull, send, topic.
    assert {26, 34, 100, 105, 14, 11, 310, 17} <= set(map(int, found.split()))


def frame_of(data: bytes) -> Frame:
    (frame,) = FrameDecoder().feed(data)
    return frame


def split(header: bytes) -> tuple[bytes, bytes] | None:
    frame = Frame(0, header, b"")
    return split_header(frame, decode_command(frame))


def test_only_a_natural_number_of_nine_digits_is_taken_from_its_text() -> None:
    digits = (b"0", b"7", b"10", b"999999999", b"", b"-1", b"01", b"00", b"1.0", b" 1", b"1234567890")
    assert [is_plain_opaque(each) for each in digits] == [True] * 4 + [False] * 7


def test_a_header_is_what_stands_before_and_behind_its_opaque() -> None:
    assert split(b'{"code":105,"opaque":7,"version":1}') == (b'{"code":105,', b',"version":1}')
    whole = frame_of(encode_command(Command(105, 42, ext_fields={"topic": "t"})))
    before, after = split_header(whole, decode_command(whole)) or (b"", b"")
    assert before + b'"opaque":42' + after == whole.header


@each_case(
    b'{"code":105,"version":1}',
    b'{"code":105,"opaque":7,"opaque":7,"version":1}',
    b'{"code":105,"opaque":7}',
    b'{"code":105,"opaque":"7","version":1}',
    b'{"code":105,"opaque": 7,"version":1}',
    b'{"code":105,"extFields":{"opaque":"x","a":"b"},"version":1}',
    b'{"code":105,"opaque":7,"flag":2,"version":1}',
    b'{"code":105,"opaque":%d,"opaque" :%d,"version":1}' % (PROBE, PROBE),
)
def test_a_header_that_could_mean_something_else_is_not_remembered(header: bytes) -> None:
    assert split(header) is None


def test_the_word_inside_a_text_is_no_opaque() -> None:
    header = b'{"code":105,"remark":"\\"opaque\\":7","opaque":8,"version":1}'
    assert split(header) == (b'{"code":105,"remark":"\\"opaque\\":7",', b',"version":1}')


def test_a_binary_header_and_a_one_way_request_are_not_remembered() -> None:
    for command in (Command(105, 7, serialize_type=SerializeType.ROCKETMQ), Command(105, 7, FLAG_ONEWAY)):
        assert split_header(frame_of(encode_command(command)), command) is None


@each_case(*product([0, 7, 42, 123_456_789], [b"", b"route"]))
def test_a_cut_answer_with_an_opaque_is_the_answer(opaque: int, body: bytes) -> None:
    cut = cut_answer(encode_response(0, PROBE, "fine", {"a": "b"}, body), len(body))
    digits = b"%d" % opaque
    assert cut.prefixes[len(digits)] + digits + cut.rest + body == encode_response(0, opaque, "fine", {"a": "b"}, body)


@each_case((TEXT_SIZE_MAX, True), (TEXT_SIZE_MAX + 1, False))
def test_a_header_that_no_honest_peer_writes_is_too_long_to_be_kept(size: int, is_kept: bool) -> None:
    empty = b'{"code":105,"opaque":7,"remark":"","version":1}'
    header = empty.replace(b'""', b'"%b"' % (b"x" * (size - len(empty))))
    assert len(header) == size
    assert (split(header) is not None) is is_kept
