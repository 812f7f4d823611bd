from __future__ import annotations

import pytest

from cases import each_case
from orbitmq.broker.topics.attributes import (
    apply_attribute_changes,
    missing_attribute,
    parse_attribute_changes,
    wants_mixed_messages,
)
from orbitmq.errors import Rejected


@each_case(
    (None, {}),
    ("", {}),
    (",,", {}),
    ("+a=b,-c", {"+a": "b", "-c": ""}),
    ("+a=b=c,,", {"+a": "b=c"}),
    ("+a=", {"+a": ""}),
)
def test_changes_are_read_with_their_signs(text: str | None, changes: dict[str, str]) -> None:
    assert parse_attribute_changes(text) == changes


@each_case("a=b", "+", "-", "+=b", "+a=b,c", "+a=b,+a=c", "+a", "-a=b", " +a=b", "+a=b, -c", "+a=b,,-c")
def test_a_change_without_sign_or_name_is_refused(text: str) -> None:
    with pytest.raises(Rejected) as caught:
        parse_attribute_changes(text)
    assert caught.value.code == 1


def test_changes_set_and_remove_and_leave_the_rest() -> None:
    before = {"cleanup.policy": "DELETE", "message.type": "FIFO", "reserve.time": "7"}
    changes = {"-message.type": "", "+reserve.time": "-1"}
    assert apply_attribute_changes(before, changes) == {"cleanup.policy": "DELETE", "reserve.time": "-1"}
    assert before == {"cleanup.policy": "DELETE", "message.type": "FIFO", "reserve.time": "7"}


@each_case(
    (None, {"+unknown": "1"}),
    (None, {"+message.type": "x"}),
    (None, {"+message.type": ""}),
    (None, {"+reserve.time": "-2"}),
    (None, {"+reserve.time": "9223372036854775808"}),
    (None, {"message.type": "FIFO"}),
    (None, {"": "FIFO"}),
    (None, {"-message.type": ""}),
    (None, {"+message.type": "FIFO", "-message.type": ""}),
    ({"message.type": "FIFO"}, {"-message.type": "", "+message.type": "DELAY"}),
    ({}, {"-message.type": ""}),
    ({}, {"+queue.type": "SimpleCQ"}),
    ({"cleanup.policy": "DELETE"}, {"-cleanup.policy": ""}),
)
def test_what_no_topic_may_have_is_refused(before: dict[str, str] | None, changes: dict[str, str]) -> None:
    with pytest.raises(Rejected) as caught:
        apply_attribute_changes(before, changes)
    assert caught.value.code == 1


def test_a_new_topic_may_have_what_cannot_be_changed_later() -> None:
    wanted = {"+queue.type": "SimpleCQ", "+cleanup.policy": "DELETE", "+message.type": "MIXED"}
    assert apply_attribute_changes(None, wanted) == {name[1:]: value for name, value in wanted.items()}


@each_case(("LITE", "5.5"))
def test_types_of_a_later_version_are_refused_with_its_number(kind: str, version: str) -> None:
    with pytest.raises(Rejected, match=f"message.type={kind} needs a broker of RocketMQ {version}"):
        apply_attribute_changes(None, {"+message.type": kind})


@each_case("queue.type=BatchCQ", "cleanup.policy=COMPACTION")
def test_an_attribute_that_would_promise_what_is_missing_is_refused_by_its_name(attribute: str) -> None:
    name, _, value = attribute.partition("=")
    with pytest.raises(Rejected, match=f"{attribute} is not supported"):
        apply_attribute_changes(None, {f"+{name}": value})
    with pytest.raises(Rejected, match="cannot be changed"):
        apply_attribute_changes({}, {f"+{name}": value})
    assert missing_attribute({"message.type": "FIFO", name: value}) == attribute
    assert missing_attribute({"queue.type": "SimpleCQ", "cleanup.policy": "DELETE"}) is None


def test_a_topic_of_batch_queues_is_refused_with_the_reason() -> None:
    with pytest.raises(Rejected, match="one entry per message, and batch consume queues are not built") as refused:
        apply_attribute_changes(None, {"+queue.type": "BatchCQ"})
    assert "queue.type=BatchCQ" in refused.value.remark


def test_names_of_one_letter_are_names() -> None:
    assert parse_attribute_changes("+x=1,-y") == {"+x": "1", "-y": ""}


def test_a_topic_is_kept_as_long_as_a_java_long_can_say() -> None:
    assert apply_attribute_changes(None, {"+reserve.time": "9223372036854775807"})


def test_only_a_change_to_mixed_wants_mixed_messages() -> None:
    assert wants_mixed_messages({"+message.type": "MIXED"})
    assert not wants_mixed_messages({"+message.type": "FIFO", "-reserve.time": ""})
