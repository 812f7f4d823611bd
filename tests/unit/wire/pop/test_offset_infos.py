"""The texts of a pop's answer, as Java's ExtraInfoUtil writes them."""

from __future__ import annotations

import pytest

from orbitmq.errors import InvalidArgument
from orbitmq.wire.pop.offset_infos import (
    PoppedQueue,
    format_message_offsets,
    format_order_counts,
    format_start_offsets,
    order_count_key,
    parse_order_counts,
    parse_popped_queues,
)

QUEUES = [PoppedQueue("0", 3, 7, [7, 9]), PoppedQueue("1", 0, 2, [2])]


def test_queues_travel_in_two_texts():
    starts, offsets = format_start_offsets(QUEUES), format_message_offsets(QUEUES)
    assert (starts, offsets) == ("0 3 7;1 0 2", "0 3 7,9;1 0 2")
    assert parse_popped_queues(starts, offsets) == QUEUES


def test_nothing_travels_as_nothing():
    assert format_start_offsets([]) == format_message_offsets([]) == ""
    assert parse_popped_queues("", None) == []


def test_order_counts_name_queues_and_messages():
    text = format_order_counts("0", 3, {7: 1, 9: 2}, default=0)
    assert text == "0 qo3%7 1;0 qo3%9 2;0 3 0"
    assert parse_order_counts(text) == {("0", "3"): 0, ("0", order_count_key(3, 7)): 1, ("0", "qo3%9"): 2}
    assert format_order_counts("0", 3, {}, default=0) == "0 3 0"


@pytest.mark.parametrize(
    ("starts", "offsets", "said"),
    [
        ("0 3", "0 3 7", "startOffsetInfo"),
        ("0 3 x", "0 3 7", "offset"),
        ("0 3 7", "0 3 7,", "offset"),
        ("0 3 7", "0 4 7", "queues that startOffsetInfo names"),
        (None, "0 4 7", "queues that startOffsetInfo names"),
    ],
)
def test_what_does_not_belong_together_is_refused(starts: str | None, offsets: str, said: str):
    with pytest.raises(InvalidArgument, match=said):
        parse_popped_queues(starts, offsets)
