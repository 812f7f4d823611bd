"""The first marker decides, and a driver commits by itself only while no check of the broker's can have come between."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from orbitmq.client.transactions.decision import Decision
from orbitmq.errors import ConfigError
from orbitmq.model.route import MessageQueue
from orbitmq.spark.exactly_once.commit_markers import (
    PROPERTY,
    SERIAL_MAX,
    Abort,
    AttemptId,
    AttemptKeys,
    CommitMarker,
    Filled,
    Marker,
    decide,
    format_attempt_id,
    format_entry,
    parse_attempt_id,
    parse_entry,
    ranges,
)
from orbitmq.spark.exactly_once.end_transactions import timeouts_of
from orbitmq.wire.messages.message_id import UniqueKeys

NOW_MS = 1_800_000_000_000


def keys_at(serial: int) -> AttemptKeys:
    keys = AttemptKeys(7)
    keys._next = serial
    keys._keys = UniqueKeys("127.0.0.1", serial >> 16, 7)
    keys._keys._counter = serial & 0xFFFF
    return keys


@each_case(0, 1, 0xFFFE, 0xFFFF, 0x10000, 0x1FFFF, 0xABCD1234, SERIAL_MAX)
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


@each_case(None, "", "K1", "G" * 32, "0" * 31, "a" * 32)
def test_a_stamp_whose_serial_is_in_no_unique_key_is_none(key):
    properties = {PROPERTY: "query/7/attempt"} | ({} if key is None else {"UNIQ_KEY": key})

    assert parse_attempt_id(properties) is None


def test_a_half_message_of_an_earlier_version_has_its_serial_in_the_stamp():
    assert parse_attempt_id({PROPERTY: "query/7/attempt/12", "UNIQ_KEY": "0" * 32}) == AttemptId(
        "query", 7, "attempt", 12
    )


@each_case(
    "",
    "query/7/attempt",
    "query/7/attempt/12/1",
    "query/x/attempt/12",
    "query/7/attempt/-1",
    "/7/attempt/1",
    "q/²/a/1",
    "q/1/a/" + "9" * 19,
)
def test_what_this_sink_has_not_written_is_no_stamp(text):
    assert parse_attempt_id({PROPERTY: text}) is None


def test_a_message_without_the_property_has_no_stamp():
    assert parse_attempt_id({"KEYS": "1"}) is None


QUEUE = MessageQueue("orders", "broker-a", 3)


def marker(*attempts, name="id", unverified=()):
    return Marker(name, "q", 1, dict.fromkeys(attempts, unverified), {QUEUE: Filled(7, 5)})


def abort(*attempts):
    return Abort("q", 1, frozenset(attempts))


def decided(attempt, *entries, serial=0):
    marker = CommitMarker()
    for entry in entries:
        marker.apply(entry)
    return decide(AttemptId("q", 1, attempt, serial), marker)


JAVA = "#comment\ntransactionTimeOut=60000\ntransactionCheckInterval=30000\ntransactionOpBatchInterval=3000\ntransactionCheckMax=15\n"


def test_a_half_message_without_a_marker_stays_open():
    assert decided("a") is Decision.UNKNOWN
    assert decided("a", abort("b")) is Decision.UNKNOWN


def test_a_marker_commits_its_attempts_and_rolls_back_all_others():
    assert decided("a", marker("a", "b")) is Decision.COMMIT
    assert decided("c", marker("a", "b")) is Decision.ROLLBACK


def test_a_doubted_message_of_a_winner_is_rolled_back():
    found = [decided("a", marker("a", unverified=((2, 3), (5, 5))), serial=serial) for serial in range(7)]

    assert [number for number, decision in enumerate(found) if decision is Decision.ROLLBACK] == [2, 3, 5]


def test_the_first_marker_wins():
    assert decided("a", marker("a"), marker("b")) is Decision.COMMIT
    assert decided("b", marker("a"), marker("b")) is Decision.ROLLBACK


def test_an_aborted_attempt_is_rolled_back_and_its_later_marker_is_void():
    assert decided("a", abort("a")) is Decision.ROLLBACK
    assert decided("b", abort("a"), marker("a", "b")) is Decision.UNKNOWN
    assert decided("c", abort("a"), marker("a", "b"), marker("c")) is Decision.COMMIT


def test_an_abort_after_the_marker_changes_nothing():
    assert decided("a", marker("a"), abort("a")) is Decision.COMMIT


ENTRIES = st.lists(
    st.one_of(
        st.sets(st.sampled_from("abc"), min_size=1).map(lambda names: marker(*sorted(names))),
        st.sets(st.sampled_from("abc"), min_size=1).map(lambda names: abort(*sorted(names))),
    ),
    max_size=8,
)


@given(ENTRIES, st.integers(0, 8), st.sampled_from("abc"))
def test_what_was_decided_once_stays_so_whatever_follows(entries, length, attempt):
    early, late = decided(attempt, *entries[:length]), decided(attempt, *entries)

    assert early in (Decision.UNKNOWN, late)


def test_serials_become_ranges():
    assert ranges([]) == ()
    assert ranges([5, 3, 4, 9, 3]) == ((3, 5), (9, 9))


@each_case(marker("a", "b", unverified=((1, 2),)), marker(), abort("a", "b"))
def test_records_make_the_round_trip(entry):
    assert parse_entry(format_entry(entry), 0) == entry


@each_case({"version": 2}, {"kind": "other"}, {"attempts": 3}, {"batch": "x"}, {"filled": [[1]]})
def test_a_record_that_cannot_be_understood_is_not_passed_over(change):
    body = orjson.dumps({**orjson.loads(format_entry(marker("a"))), **change})

    with pytest.raises(ConfigError, match=r"markerTopic.*record 42"):
        parse_entry(body, 42)


@each_case(b"hello", b"{}", b"[]", b"3")
def test_a_message_that_is_no_record_is_not_passed_over(body):
    with pytest.raises(ConfigError, match="markerTopic"):
        parse_entry(body, 0)


def test_a_java_broker_takes_direct_ends_until_it_may_have_asked():
    found = timeouts_of(JAVA)

    assert found.may_end(54_999)
    assert not found.may_end(55_000)


def test_a_broker_of_ours_takes_them_at_any_time():
    assert timeouts_of(JAVA + "topicsMax=9\n").may_end(10**9)


def test_a_message_may_be_given_up_after_the_last_check():
    found = timeouts_of(JAVA)

    assert not found.may_be_given_up(60_000 + 14 * 30_000 - 2_001)
    assert found.may_be_given_up(60_000 + 14 * 30_000 - 2_000)


def test_settings_that_are_not_told_are_javas_defaults():
    assert timeouts_of("") == timeouts_of("transactionTimeOut=6000\ntransactionCheckMax=x")
    assert timeouts_of("").direct_ms == 1_000
