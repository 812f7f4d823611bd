"""A change of a topic's settings."""

from __future__ import annotations

import pytest

from orbitmq.admin import TopicChange
from orbitmq.admin.topics.values import format_attribute_changes, parse_attribute_change
from orbitmq.errors import InvalidArgument
from orbitmq.model.topic import TopicConfig

ORDERS = TopicConfig(topic="orders", read_queue_count=4, write_queue_count=3, order=True, attributes={"a": "b"})


def test_what_is_not_named_stays_as_it_is() -> None:
    wanted = TopicChange(perm=4, attributes={"-a": ""}).applied_to(ORDERS)
    assert (wanted.read_queue_count, wanted.write_queue_count, wanted.perm, wanted.order) == (4, 3, 4, True)
    assert wanted.attributes == {"-a": ""}


def test_what_is_named_counts_also_where_it_is_nothing() -> None:
    wanted = TopicChange(read_queue_count=8, write_queue_count=9, perm=0, order=False).applied_to(ORDERS)
    assert (wanted.read_queue_count, wanted.write_queue_count, wanted.perm, wanted.order) == (8, 9, 0, False)
    assert wanted.attributes == {}


def test_changes_of_attributes_are_written_as_java_reads_them() -> None:
    assert (
        format_attribute_changes({"+message.type": "FIFO", "-reserve.time": ""}) == "+message.type=FIFO,-reserve.time"
    )
    assert format_attribute_changes({}) is None


@pytest.mark.parametrize(
    ("text", "change"), [("+message.type=FIFO", ("+message.type", "FIFO")), ("-message.type", ("-message.type", ""))]
)
def test_a_change_of_an_attribute_is_read(text: str, change: tuple[str, str]) -> None:
    assert parse_attribute_change(text) == change


@pytest.mark.parametrize("text", ["", "+", "-", "a=b", "a", "+a", "+a=", "-a=b", "-a=", "+=b", "+a=b,+c=d"])
def test_what_is_no_change_of_an_attribute_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="attribute"):
        parse_attribute_change(text)


@pytest.mark.parametrize("name", ["message.type", "+", ""])
def test_an_attribute_needs_a_sign(name: str) -> None:
    with pytest.raises(InvalidArgument, match="attributes"):
        TopicChange(attributes={name: "FIFO"})
