from dataclasses import FrozenInstanceError, dataclass

import pytest

from orbitmq.codes import RequestCode
from orbitmq.errors import HeaderError
from orbitmq.wire import headers
from orbitmq.wire.header import bound_codes, code_of, decode_header, encode_header, request, request_type

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


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"b": None}, "the field b is missing"),
        ({"e": "x"}, "the field e is 'x', expected a 32-bit integer"),
        ({"e": "2147483648"}, "32-bit"),
        ({"g": "9223372036854775808"}, "64-bit"),
        ({"e": "9" * 5000}, "32-bit"),
    ],
)
def test_a_bad_field_is_named_with_its_value_and_what_was_expected(change, words):
    fields = {name: value for name, value in (encode_header(SEND) | change).items() if value is not None}
    with pytest.raises(HeaderError, match=words):
        decode_header(headers.SendMessageV2, fields)


def test_missing_ext_fields_count_as_none():
    assert decode_header(headers.GetClusterInfo, None) == headers.GetClusterInfo()
    with pytest.raises(HeaderError):
        decode_header(headers.GetRouteInfo, None)


@pytest.mark.parametrize(
    ("text", "value"), [("true", True), ("TRUE", True), ("false", False), ("1", False), ("", False)]
)
def test_booleans_read_as_java_reads_them(text, value):
    assert (
        decode_header(headers.GetRouteInfo, {"topic": "t", "acceptStandardJsonOnly": text}).accept_standard_json_only
        is value
    )


def test_binding_a_code_twice_fails():
    with pytest.raises(TypeError, match="105"):

        @request(RequestCode.GET_ROUTEINFO_BY_TOPIC)
        @dataclass(frozen=True, slots=True, kw_only=True)
        class Twice:
            topic: str


def test_a_derived_header_has_a_code_of_its_own():
    assert code_of(headers.SendBatch) == RequestCode.SEND_BATCH_MESSAGE
    assert request_type(RequestCode.LITE_PULL_MESSAGE) is headers.LitePullMessage
    headers.load_all()
    assert set(bound_codes()) <= set(RequestCode)


def test_a_decoded_header_is_frozen_and_equal_to_a_made_one():
    decoded = decode_header(headers.GetRouteInfo, {"topic": "orders"})

    assert decoded == headers.GetRouteInfo(topic="orders")
    with pytest.raises(FrozenInstanceError):
        decoded.topic = "other"  # type: ignore[misc]
