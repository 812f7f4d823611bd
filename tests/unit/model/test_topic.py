"""Topics: names that are legal everywhere, versions of tables, and delay levels."""

from __future__ import annotations

import pytest

from cases import each_case
from orbitmq.errors import InvalidArgument
from orbitmq.model.delay_levels import DELAY_LEVELS, DELAY_LEVELS_MAX, DELAY_LEVELS_TEXT, parse_delay_levels
from orbitmq.model.topic import NAME_LENGTH_MAX, DataVersion, Perm, TopicConfig, check_name, is_reserved_topic, kind_of


@each_case("a", "%RETRY%group-1", "A_b|c", "x" * NAME_LENGTH_MAX)
def test_a_legal_name_comes_back(name: str) -> None:
    assert check_name("topic", name) == name


@each_case(
    ("", "group: '' is not allowed, expected a name that is not empty"),
    (None, "a name that is not empty"),
    ("x" * (NAME_LENGTH_MAX + 1), "at most 127 characters, not 128"),
    ("a b", "only letters, digits"),
    ("a\n", "only letters, digits"),
    ("ä", "only letters, digits"),
)
def test_any_other_name_is_refused_with_the_reason(name: str, words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        check_name("group", name)


def test_the_length_of_a_name_may_have_another_limit() -> None:
    assert check_name("group", "abc", length_max=3) == "abc"
    with pytest.raises(InvalidArgument, match="at most 2 characters, not 3"):
        check_name("group", "abc", length_max=2)


def test_permissions_are_javas_bits() -> None:
    assert (Perm.INHERIT, Perm.WRITE, Perm.READ, Perm.PRIORITY, Perm.READ_WRITE) == (1, 2, 4, 8, 6)


def test_the_next_version_counts_one_more_at_its_time() -> None:
    assert DataVersion() == (0, 0, 0)
    assert DataVersion(1, 2, 3).next(9) == DataVersion(0, 9, 4)
    assert DataVersion(1, 2, 3).next(9, state_version=7) == DataVersion(7, 9, 4)


def test_a_topic_has_javas_defaults() -> None:
    found = TopicConfig(topic="t")
    assert (found.read_queue_count, found.write_queue_count, found.perm) == (16, 16, 6)
    assert (found.topic_filter_type, found.topic_sys_flag, found.order, found.attributes) == (
        "SINGLE_TAG",
        0,
        False,
        {},
    )


@each_case("TBW102", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRACE_TOPIC", "rmq_sys_anything")
def test_topics_of_rocketmq_itself_are_known_by_their_names(topic: str) -> None:
    assert is_reserved_topic(topic)


@each_case("orders", "TBW1020", "%RETRY%g", "%DLQ%g", "a_rmq_sys_")
def test_other_topics_are_the_users(topic: str) -> None:
    assert not is_reserved_topic(topic)


def test_delays_are_given_in_seconds_minutes_hours_and_days() -> None:
    levels = parse_delay_levels("0s 5s 2m 3h 1d 007s")
    assert [levels.delay_ms(level) for level in range(1, 7)] == [0, 5_000, 120_000, 10_800_000, 86_400_000, 7_000]
    assert len(levels) == 6


def test_a_level_above_the_highest_is_the_highest() -> None:
    levels = parse_delay_levels("1s 5s 10s")
    assert [levels.nearest(level) for level in (1, 3, 4, 999_999_999)] == [1, 3, 3, 3]
    assert levels.delay_ms(18) == 10_000


def test_out_of_the_box_there_are_18_up_to_two_hours() -> None:
    assert len(DELAY_LEVELS) == 18
    assert DELAY_LEVELS.delays_ms[-1] == 7_200_000
    assert parse_delay_levels(DELAY_LEVELS_TEXT) == DELAY_LEVELS


SMALL = [
    "",
    " ",
    "1s  5s",
    " 1s",
    "1s ",
    "1s\t5s",
    "s",
    "5",
    "5S",
    "5ms",
    "-5s",
    "+5s",
    "1.5s",
    "٣s",
    "1s,5s",
    "1s five",
]
LARGE = ["36501d", "9" * 14 + "s", "9" * 5_000 + "s", " ".join(["1s"] * (DELAY_LEVELS_MAX + 1))]


@each_case(*SMALL, *LARGE)
def test_what_is_no_list_of_delays_is_refused_with_what_is_allowed(text: str) -> None:
    with pytest.raises(InvalidArgument, match="messageDelayLevel") as refusal:
        parse_delay_levels(text)
    assert "36500d" in refusal.value.allowed


def test_the_limits_themselves_are_allowed() -> None:
    assert len(parse_delay_levels(" ".join(["36500d"] * DELAY_LEVELS_MAX))) == DELAY_LEVELS_MAX


@each_case(("orders", "user"), ("%RETRY%g", "retry"), ("%DLQ%g", "dead letters"), ("RMQ_SYS_TRACE_TOPIC", "system"))
def test_a_topics_kind_is_told_by_its_name(topic, kind):
    assert kind_of(topic) == kind
