"""Handles of popped messages: Java's text, and nothing else."""

from __future__ import annotations

import pytest

from cases import each_case
from orbitmq.errors import InvalidArgument
from orbitmq.wire.pop import handles

JAVA = "7 5 6 1 2 broker-a 3 9"
"""As ExtraInfoUtil.buildExtraInfo(7, 5, 6, 1, "%RETRY%g+t", "broker-a", 3, 9) writes it."""


def test_a_handle_travels_as_java_writes_it():
    handle = handles.Handle(7, 5, 6, 1, handles.RETRY_V2, "broker-a", 3, 9)
    assert handles.format_handle(handle) == JAVA
    assert handles.parse_handle(JAVA) == handle


def test_the_messages_offset_and_the_queue_may_be_missing():
    assert handles.parse_handle("7 5 6 1 0 broker-a 3") == handles.Handle(7, 5, 6, 1, handles.NORMAL, "broker-a", 3)
    assert handles.parse_handle("7 5 6 1 0 broker-a").queue_id == -1
    assert handles.format_handle(handles.Handle(7, 5, 6, 1, handles.NORMAL, "broker-a", 3)) == "7 5 6 1 0 broker-a 3"


@each_case("123456", "", "whatever else")
def test_what_javas_proxy_appends_counts_for_nothing(more):
    assert handles.parse_handle(f"{JAVA} {more}") == handles.parse_handle(JAVA)


@each_case(
    ("", "6 fields or more"),
    ("7 5 6 1 0", "6 fields or more"),
    ("x 5 6 1 0 b", "checkpoint offset 'x'"),
    ("-1 5 6 1 0 b", "checkpoint offset '-1'"),
    ("9223372036854775808 5 6 1 0 b", "checkpoint offset"),
    ("7 5 6 ١ 0 b", "revive queue"),
    ("7 5 6 1 3 b", "retry '3'"),
    ("7 5 6 1 0 b -3", "queue '-3'"),
    ("7 5 6 1 0 b 3 1e9", "offset '1e9'"),
    ("9" * 10_000_000, "10000000 characters"),
    ("9" * (handles.HANDLE_LENGTH_MAX + 1), f"at most {handles.HANDLE_LENGTH_MAX}"),
)
def test_anything_else_is_refused_with_a_short_sentence(text: str, said: str):
    with pytest.raises(InvalidArgument, match="extraInfo") as refused:
        handles.parse_handle(text)
    assert said in str(refused.value)
    assert len(str(refused.value)) < 300


@each_case((handles.NORMAL, "t_a"), (handles.RETRY_V1, "%RETRY%g_t_a"), (handles.RETRY_V2, "%RETRY%g+t_a"))
def test_each_kind_has_a_topic_of_its_own_that_leads_back(kind: str, topic: str):
    assert handles.pop_retry_topic("t_a", "g", kind) == topic
    assert handles.retry_kind(topic) == kind
    assert handles.normal_topic(topic, "g") == "t_a"


def test_another_groups_retry_topic_belongs_to_no_other_group():
    assert handles.normal_topic("%RETRY%h_t", "g") == "%RETRY%h_t"


QUEUES = [handles.PoppedQueue("0", 3, 7, [7, 9]), handles.PoppedQueue("1", 0, 2, [2])]


def test_queues_travel_in_two_texts():
    starts, offsets = handles.format_start_offsets(QUEUES), handles.format_message_offsets(QUEUES)
    assert (starts, offsets) == ("0 3 7;1 0 2", "0 3 7,9;1 0 2")
    assert handles.parse_popped_queues(starts, offsets) == QUEUES


def test_nothing_travels_as_nothing():
    assert handles.format_start_offsets([]) == handles.format_message_offsets([]) == ""
    assert handles.parse_popped_queues("", None) == []


def test_order_counts_name_queues_and_messages():
    text = handles.format_order_counts("0", 3, {7: 1, 9: 2}, default=0)
    assert text == "0 qo3%7 1;0 qo3%9 2;0 3 0"
    assert handles.parse_order_counts(text) == {
        ("0", "3"): 0,
        ("0", handles.order_count_key(3, 7)): 1,
        ("0", "qo3%9"): 2,
    }
    assert handles.format_order_counts("0", 3, {}, default=0) == "0 3 0"


@each_case(
    ("0 3", "0 3 7", "startOffsetInfo"),
    ("0 3 x", "0 3 7", "offset"),
    ("0 3 7", "0 3 7,", "offset"),
    ("0 3 7", "0 4 7", "queues that startOffsetInfo names"),
    (None, "0 4 7", "queues that startOffsetInfo names"),
)
def test_what_does_not_belong_together_is_refused(starts: str | None, offsets: str, said: str):
    with pytest.raises(InvalidArgument, match=said):
        handles.parse_popped_queues(starts, offsets)
