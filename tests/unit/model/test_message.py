"""Messages: what may be sent, and what a stored message says of itself."""

from __future__ import annotations

import dataclasses
from itertools import product
from typing import Any

import numpy
import pytest

from cases import each_case
from orbitmq.errors import InvalidArgument
from orbitmq.model.message import BODY_SIZE_MAX, Host, Message, PropertyName, ReplyTo, StoredMessage, SysFlag


def stored(**properties: str) -> StoredMessage:
    return StoredMessage(
        topic="orders", body=b"", properties=properties, queue_id=0, queue_offset=0, physical_offset=0, store_size=0
    )


@each_case(b"", bytearray(b"a"), memoryview(b"a"), bytes(BODY_SIZE_MAX))
def test_a_body_is_bytes_up_to_the_limit(body: bytes) -> None:
    message = Message("orders", body)
    assert (message.flag, message.delay_level, message.properties, message.keys) == (0, 0, {}, ())


@each_case(
    ({"topic": ""}, "topic"),
    ({"topic": "with blank"}, "topic"),
    ({"body": "text"}, "body: 'str' is not allowed, expected bytes"),
    ({"body": bytes(BODY_SIZE_MAX + 1)}, f"{BODY_SIZE_MAX + 1} bytes"),
    ({"keys": "42"}, "a list of strings"),
    ({"keys": [""]}, "not empty"),
    ({"keys": ["42", "4 2"]}, "keys: '4 2' .* no blank"),
    ({"keys": ["42", "4\x022"]}, r"keys: '4\\x022' .* no 0x02"),
)
def test_a_message_that_no_broker_would_take_is_refused(changed: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidArgument, match=named):
        Message(**{"topic": "orders", "body": b"", **changed})


def test_a_stored_message_reads_tag_keys_and_id_from_its_properties() -> None:
    message = stored(TAGS="new", KEYS="42 43", UNIQ_KEY="0A")
    assert (message.tag, message.keys, message.message_id) == ("new", ("42", "43"), "0A")


@each_case("4\n2", "4\t2", "4\u30002", "\r")
def test_a_blank_alone_separates_keys_as_it_does_in_java(key: str) -> None:
    assert Message("t", b"", keys=[key]).keys == [key]
    assert stored(KEYS=f" {key}  43 ").keys == (key, "43")


def test_a_stored_message_without_properties_has_no_tag_no_keys_and_no_id() -> None:
    assert (stored().tag, stored().keys, stored().message_id) == (None, (), "")


def test_fields_that_a_message_may_lack_are_zero() -> None:
    message = stored()
    numbers = (message.flag, message.sys_flag, message.born_at_ms, message.stored_at_ms, message.reconsume_times)
    assert numbers == (0, 0, 0, 0, 0)
    assert (message.prepared_transaction_offset, message.body_crc, message.broker_name) == (0, 0, "")
    assert message.born_host == message.store_host == Host("0.0.0.0", 0)


def test_a_host_of_ipv6_is_written_in_brackets() -> None:
    assert [str(Host("10.0.0.1", 10911)), str(Host("::1", 10911))] == ["10.0.0.1:10911", "[::1]:10911"]


def test_names_of_properties_are_upstreams() -> None:
    assert (PropertyName.KEYS, PropertyName.TAGS, PropertyName.UNIQ_KEY) == ("KEYS", "TAGS", "UNIQ_KEY")


def test_bits_of_the_sys_flag_are_javas() -> None:
    assert (SysFlag.COMPRESSED, SysFlag.MULTI_TAGS) == (0x1, 0x2)
    transaction = (SysFlag.TRANSACTION_PREPARED, SysFlag.TRANSACTION_COMMIT, SysFlag.TRANSACTION_ROLLBACK)
    assert transaction == (0x4, 0x8, 0xC)
    assert SysFlag.TRANSACTION_MASK == 0xC
    assert (SysFlag.BORN_HOST_V6, SysFlag.STORE_HOST_V6) == (0x10, 0x20)
    assert (SysFlag.NEED_UNWRAP, SysFlag.INNER_BATCH) == (0x40, 0x80)
    assert (SysFlag.COMPRESSION_LZ4, SysFlag.COMPRESSION_ZSTD, SysFlag.COMPRESSION_ZLIB) == (0x100, 0x200, 0x300)
    assert SysFlag.COMPRESSION_MASK == 0x700


REQUEST = {"CORRELATION_ID": "id-1", "REPLY_TO_CLIENT": "asker", "CLUSTER": "c", "TTL": "3000"}


def test_a_reply_goes_to_the_reply_topic_of_its_requests_cluster_and_names_the_request() -> None:
    request = dataclasses.replace(stored(**REQUEST), broker_name="broker-a")
    assert request.is_request
    reply = request.reply(b"yes", tag="t", keys=["k"], properties={"a": "b"}, flag=7)
    assert reply == Message(
        "c_REPLY_TOPIC", b"yes", "t", ["k"], {"a": "b"}, 7, in_reply_to=ReplyTo("id-1", "asker", "3000", "broker-a")
    )


def test_a_request_that_does_not_say_how_long_it_waits_can_be_replied_to() -> None:
    properties = {name: value for name, value in REQUEST.items() if name != "TTL"}
    assert stored(**properties).reply(b"").in_reply_to == ReplyTo("id-1", "asker", None, "")


@each_case("CORRELATION_ID", "REPLY_TO_CLIENT", "CLUSTER")
def test_a_message_that_is_no_request_cannot_be_replied_to(missing: str) -> None:
    message = stored(**{name: value for name, value in REQUEST.items() if name != missing})
    assert not message.is_request
    with pytest.raises(InvalidArgument, match="a request: it expects no reply"):
        message.reply(b"yes")


@each_case(-1, 1_001, "3", 1.5)
def test_a_delay_level_that_no_broker_has_is_refused(delay_level):
    with pytest.raises(InvalidArgument, match="delay_level"):
        Message("t", b"", delay_level=delay_level)


def test_keys_are_strings():
    with pytest.raises(InvalidArgument, match="keys: 42 "):
        Message("t", b"", keys=[42])  # type: ignore[list-item]


def test_numbers_of_other_kinds_become_ints():
    int64: Any = numpy.int64
    int8: Any = numpy.int8
    message = Message("orders", b"", flag=int64(7), delay_level=int8(3))
    late = Message("orders", b"", delay_ms=int64(5))
    numbers = [message.flag, message.delay_level, late.delay_ms]
    assert numbers == [7, 3, 5]
    assert {type(number) for number in numbers} == {int}


@each_case(
    {"priority": -1}, {"priority": True}, {"priority": 1.0}, {"priority": 2**31}, {"priority": 1, "delay_ms": 5},
    {"priority": 0, "sharding_key": "k"}, {"priority": 0, "delay_level": 1},
)  # fmt: skip
def test_a_priority_is_a_whole_number_without_a_delay_or_a_sharding_key(arguments):
    with pytest.raises(InvalidArgument, match="priority"):
        Message("orders", b"", **arguments)


@each_case((numpy.int64(3), 3), (0, 0), (None, None))
def test_a_priority_may_be_any_kind_of_whole_number(given, taken):
    assert Message("orders", b"", priority=given).priority == taken


@each_case(*product(["flag", "delay_level", "delay_ms"], [True, numpy.bool_(True), numpy.float64(1), "1", None]))
def test_what_is_no_number_stays_refused(name, value):
    with pytest.raises(InvalidArgument) as caught:
        Message("orders", b"", **{name: value})
    assert caught.value.field == name
