"""A stamp comes back from the property that it was written to, and from nothing else."""

from __future__ import annotations

import pytest

from orbitmq.spark.exactly_once.attempt_ids import (
    PROPERTY,
    SERIAL_MAX,
    AttemptId,
    AttemptKeys,
    format_attempt_id,
    parse_attempt_id,
)
from orbitmq.wire.messages.message_id import UniqueKeys

NOW_MS = 1_800_000_000_000


def keys_at(serial: int) -> AttemptKeys:
    keys = AttemptKeys(7)
    keys._next = serial
    keys._keys = UniqueKeys("127.0.0.1", serial >> 16, 7)
    keys._keys._counter = serial & 0xFFFF
    return keys


@pytest.mark.parametrize("serial", [0, 1, 0xFFFE, 0xFFFF, 0x10000, 0x1FFFF, 0xABCD1234, SERIAL_MAX])
def test_a_serial_travels_in_the_unique_key(serial):
    found, key = keys_at(serial).next(NOW_MS)

    properties = {PROPERTY: format_attempt_id("query", 7, "attempt"), "UNIQ_KEY": key}
    assert found == serial
    assert parse_attempt_id(properties) == AttemptId("query", 7, "attempt", serial)
    assert properties[PROPERTY] == "query/7/attempt"


def test_serials_and_their_keys_go_on_beyond_what_a_plain_keys_counter_holds():
    keys = AttemptKeys(7)
    made = [keys.next(NOW_MS) for _ in range(0x10003)]

    assert [serial for serial, _ in made] == list(range(0x10003))
    assert len({key for _, key in made}) == len(made)
    last = {PROPERTY: "q/1/a", "UNIQ_KEY": made[-1][1]}
    assert parse_attempt_id(last) == AttemptId("q", 1, "a", 0x10002)


def test_an_attempt_has_no_more_serials_than_a_key_holds():
    keys = keys_at(SERIAL_MAX)
    keys.next(NOW_MS)

    with pytest.raises(OverflowError, match="4294967296"):
        keys.next(NOW_MS)


@pytest.mark.parametrize("key", [None, "", "K1", "G" * 32, "0" * 31, "a" * 32])
def test_a_stamp_whose_serial_is_in_no_unique_key_is_none(key):
    properties = {PROPERTY: "query/7/attempt"} | ({} if key is None else {"UNIQ_KEY": key})

    assert parse_attempt_id(properties) is None


def test_a_half_message_of_an_earlier_version_has_its_serial_in_the_stamp():
    assert parse_attempt_id({PROPERTY: "query/7/attempt/12", "UNIQ_KEY": "0" * 32}) == AttemptId(
        "query", 7, "attempt", 12
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "query/7/attempt",
        "query/7/attempt/12/1",
        "query/x/attempt/12",
        "query/7/attempt/-1",
        "/7/attempt/1",
        "q/²/a/1",
        "q/1/a/" + "9" * 19,
    ],
)
def test_what_this_sink_has_not_written_is_no_stamp(text):
    assert parse_attempt_id({PROPERTY: text}) is None


def test_a_message_without_the_property_has_no_stamp():
    assert parse_attempt_id({"KEYS": "1"}) is None
