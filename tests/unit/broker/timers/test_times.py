from __future__ import annotations

import pytest

from cases import each_case
from orbitmq.broker.timers.times import (
    TimerRules,
    asks_for_time,
    due_step_ms,
    is_congested,
    parse_long,
    wait_form,
    without_times,
)
from orbitmq.errors import Rejected
from orbitmq.store import Draft
from orbitmq.wire.messages.properties import parse_properties

NOW = 1_700_000_000_500
RULES = TimerRules(is_enabled=True, delay_s_max=100, precision_ms=1_000, slot_count_max=10)


@each_case(
    ({}, False),
    ({"TIMER_DELAY_SEC": "1"}, True),
    ({"TIMER_DELAY_MS": "1"}, True),
    ({"TIMER_DELIVER_MS": "1"}, True),
    ({"TIMER_DELIVER_MS": "1", "TIMER_OUT_MS": "1"}, False),
)
def test_a_message_asks_for_a_time_unless_a_timer_delivered_it(properties: dict[str, str], asks: bool) -> None:
    assert asks_for_time(properties) is asks


@each_case(
    ({"TIMER_DELAY_SEC": "2"}, NOW + 1_500),
    ({"TIMER_DELAY_MS": "2500"}, NOW + 1_500),
    ({"TIMER_DELAY_MS": "2499"}, NOW + 1_500),
    ({"TIMER_DELAY_MS": "2501"}, NOW + 2_500),
    ({"TIMER_DELAY_MS": "+1"}, NOW - 500),
    ({"TIMER_DELIVER_MS": str(NOW + 700)}, NOW + 500),
    ({"TIMER_DELAY_SEC": "2", "TIMER_DELAY_MS": "50000", "TIMER_DELIVER_MS": "x"}, NOW + 1_500),
    ({"TIMER_DELAY_SEC": "100"}, NOW + 99_500),
)
def test_a_message_is_due_at_the_end_of_the_step_that_its_time_lies_in(properties: dict[str, str], step: int) -> None:
    assert due_step_ms(properties, RULES, NOW) == step


@each_case(
    {"TIMER_DELAY_SEC": "0"},
    {"TIMER_DELAY_SEC": "-5"},
    {"TIMER_DELAY_MS": "-9223372036854775808"},
    {"TIMER_DELIVER_MS": str(NOW)},
    {"TIMER_DELIVER_MS": "-1"},
)
def test_a_time_that_is_over_asks_for_nothing(properties: dict[str, str]) -> None:
    assert due_step_ms(properties, RULES, NOW) is None


@each_case(
    ("TIMER_DELAY_SEC", "101", "TIMER_DELAY_SEC: 101 is not allowed, expected at most 100 s from now"),
    ("TIMER_DELAY_SEC", "9223372036854775807", "at most 100 s from now .timerMaxDelaySec.; .*max delay 100000ms"),
    ("TIMER_DELAY_MS", "100001", "TIMER_DELAY_MS: 100001"),
    ("TIMER_DELIVER_MS", str(NOW + 100_001), "at most 100 s"),
    ("TIMER_DELIVER_MS", "9223372036854775808", "TIMER_DELIVER_MS: '9223372036854775808' .* expected a number"),
    ("TIMER_DELAY_MS", "1e3", "expected a number"),
    ("TIMER_DELAY_MS", " 1", "expected a number"),
    ("TIMER_DELAY_MS", "1_000", "expected a number"),
    ("TIMER_DELAY_MS", "9" * 1_000, "expected a number"),
    ("TIMER_DELAY_SEC", "", "expected a number"),
)
def test_a_time_that_is_none_or_too_far_away_is_refused_with_its_name_value_and_limit(
    name: str, value: str, remark: str
) -> None:
    with pytest.raises(Rejected, match=remark) as caught:
        due_step_ms({name: value}, RULES, NOW)
    assert caught.value.code == 13
    assert len(caught.value.remark) < 500


def test_a_message_that_takes_another_back_needs_a_time_to_come() -> None:
    properties = {"TIMER_DEL_UNIQKEY": "t+K", "TIMER_DELIVER_MS": str(NOW)}
    with pytest.raises(Rejected, match="a time to come"):
        due_step_ms(properties, RULES, NOW)


def test_without_a_wheel_every_time_is_refused() -> None:
    with pytest.raises(Rejected, match="timerWheelEnable is false") as caught:
        due_step_ms({"TIMER_DELAY_SEC": "0"}, RULES._replace(is_enabled=False), NOW)
    assert caught.value.code == 1


def test_a_message_waits_with_its_own_topic_and_queue_among_its_properties() -> None:
    waiting = wait_form(Draft("t", 3, b"body"), {"TAGS": "a"}, 5_000)
    assert (waiting.topic, waiting.queue_id, waiting.body) == ("rmq_sys_wheel_timer", 0, b"body")
    assert parse_properties(waiting.properties) == {
        "TAGS": "a", "TIMER_OUT_MS": "5000", "REAL_TOPIC": "t", "REAL_QID": "3",
    }  # fmt: skip


def test_where_a_level_counts_the_times_are_taken_out() -> None:
    properties = {"A": "b", "TIMER_DELAY_SEC": "1", "TIMER_DELAY_MS": "1", "TIMER_DELIVER_MS": "1", "DELAY": "1"}
    assert without_times(properties) == {"A": "b", "DELAY": "1"}


@each_case((10, 0.0, False), (15, 0.49, True), (15, 0.51, False), (20, 0.99, True), (100, 0.99, True))
def test_the_fuller_a_step_is_the_more_messages_are_refused(count: int, chance: float, is_refused: bool) -> None:
    assert is_congested(count, 10, chance) is is_refused


@each_case(
    ("0", 0), ("-7", -7), ("+7", 7), ("9223372036854775807", (1 << 63) - 1), ("9223372036854775808", None), ("٣", None)
)
def test_numbers_are_those_of_java(text: str, value: int | None) -> None:
    assert parse_long(text) == value
