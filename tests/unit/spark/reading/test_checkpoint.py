"""A stream's position survives the checkpoint, and only what the connector wrote is read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from orbitmq.errors import InvalidArgument
from orbitmq.model.route import MessageQueue
from orbitmq.spark.offsets import format_offsets, parse_offsets
from orbitmq.spark.reading.checkpoint import Origin, StreamPosition, format_position, parse_position

queues = st.builds(MessageQueue, st.sampled_from(["orders", "bills"]), st.sampled_from(["a", "b"]), st.integers(0, 3))
offsets = st.dictionaries(queues, st.integers(0, 1000), max_size=8)


origins = st.dictionaries(queues, st.builds(Origin, st.integers(0, 1000), st.integers(0, 2**62)), max_size=8)


@given(offsets, st.none() | offsets, origins)
def test_positions_survive_the_checkpoint(ends, begins, origins):
    position = StreamPosition(ends, ends if begins is None else begins, origins)

    assert parse_position(format_position(position)) == position
    assert parse_position(format_position(position)).is_initial == position.is_initial
    assert parse_offsets(format_offsets(ends)) == ends


@each_case(None, [], {}, {"orders": {"a": {"0": 1}}}, {"queues": {}, "more": {}}, {"queues": {"t": 1}})
def test_a_foreign_checkpoint_is_refused(document):
    with pytest.raises(InvalidArgument):
        parse_position(document)


@each_case(
    (Origin(10, 500), False),
    (Origin(12, 700), False),  # retention took two
    (Origin(8, 300), False),  # a slave has kept two more
    (Origin(0, 501), True),
    (Origin(10, 501), True),
)
def test_a_topic_that_begins_again_is_told_from_one_that_lost_its_beginning(now, is_another):
    assert Origin(10, 500).is_of_another(now) is is_another


def test_a_checkpoint_of_an_older_version_is_read():
    older = {"queues": {"orders": {"a": {"0": 7}}}, "begins": {"orders": {"a": {"0": 5}}}}
    queue = MessageQueue("orders", "a", 0)
    assert parse_position(older) == StreamPosition({queue: 7}, {queue: 5})
