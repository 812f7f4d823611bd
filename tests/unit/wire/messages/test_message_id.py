"""Offset message ids, unique keys, and the recall handles that hold them."""

import base64
from datetime import datetime

import pytest

from cases import each_case
from orbitmq.errors import InvalidArgument
from orbitmq.model.message import Host
from orbitmq.wire.messages.message_id import UniqueKeys, offset_message_id, parse_offset_message_id
from orbitmq.wire.messages.recall_handle import RecallHandle, format_recall_handle, parse_recall_handle

HANDLE = RecallHandle("orders", "broker-a", "1700000000001", "7F0000010001")


def encoded(text):
    return base64.urlsafe_b64encode(text.encode()).decode()


def test_an_offset_id_is_address_and_offset_in_hex():
    assert offset_message_id(Host("127.0.0.1", 10911), 1024) == "7F00000100002A9F0000000000000400"


@each_case(Host("10.1.2.3", 10911), Host("2001:db8::1", 65535))
def test_an_offset_id_comes_apart_again(host):
    message_id = offset_message_id(host, 2**40 + 5)
    assert len(message_id) == (56 if ":" in host.ip else 32)
    assert parse_offset_message_id(message_id) == (host, 2**40 + 5)


@each_case("", "7F", "G" * 32, "0" * 33, "0" * 54, "é" * 32, " " * 32, "00 " * 16 + "0" * 8)
def test_anything_else_is_refused(bad):
    with pytest.raises(InvalidArgument, match="32 or 56"):
        parse_offset_message_id(bad)


def test_unique_keys_carry_address_pid_seed_time_and_counter():
    start = int(datetime(2026, 11, 1).timestamp() * 1000)
    keys = UniqueKeys("192.168.0.1", 0x12345, 0xDEADBEEF)
    assert keys.next(start + 0x1234) == "C0A800012345DEADBEEF000012340000"
    assert keys.next(start + 0x1234) == "C0A800012345DEADBEEF000012340001"


def test_time_starts_again_with_the_month():
    keys = UniqueKeys("::1", 1, 2)
    last_of_december = int(datetime(2026, 12, 31, 23, 59, 59).timestamp() * 1000)
    assert keys.next(last_of_december)[44:52] == f"{31 * 86_400_000 - 1000:08X}"
    assert keys.next(last_of_december + 1500)[44:52] == f"{500:08X}"
    assert len(keys.next(last_of_december)) == 56


def test_reserved_keys_are_those_that_would_have_come_next():
    now = int(datetime(2026, 5, 5).timestamp() * 1000)
    keys, others = UniqueKeys("1.2.3.4", 1, 2), UniqueKeys("1.2.3.4", 1, 2)
    made = [others.next(now) for _ in range(0x10003)]
    for count in (1, 3, 0xFFFE):
        prefix, first = keys.reserve(now, count)
        assert [f"{prefix}{(first + step) & 0xFFFF:04X}" for step in range(count)] == made[:count]
        del made[:count]
    assert keys.next(now) == made[0]


def test_the_counter_wraps_at_16_bits():
    keys = UniqueKeys("1.2.3.4", 1, 2)
    now = int(datetime(2026, 5, 5).timestamp() * 1000)
    made = [keys.next(now) for _ in range(0x10001)]
    assert len(set(made)) == 0x10000
    assert made[0] == made[-1]


def test_a_handle_is_five_words_in_base64():
    assert format_recall_handle(HANDLE) == encoded("v1 orders broker-a 1700000000001 7F0000010001")
    assert parse_recall_handle(format_recall_handle(HANDLE)) == HANDLE
    assert parse_recall_handle(format_recall_handle(HANDLE).rstrip("=")) == HANDLE


def test_more_words_are_ignored_as_in_java():
    assert parse_recall_handle(encoded("v1 orders broker-a 1700000000001 7F0000010001 more")) == HANDLE


@each_case("", "=", "x", "%%%%", "ü", "a b", encoded("v2 a b 1 c"), encoded("v1 a b 1"), "A" * 1025, "_w==", "a+/b")
def test_what_is_no_handle_is_refused(text):
    with pytest.raises(InvalidArgument, match="recall_handle"):
        parse_recall_handle(text)
