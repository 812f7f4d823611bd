"""A stream's position survives the checkpoint, and only what the connector wrote is read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.errors import InvalidArgument
from orbitmq.model.route import MessageQueue
from orbitmq.spark.offsets import format_offsets, parse_offsets
from orbitmq.spark.reading.checkpoint import Position, format_position, parse_position

queues = st.builds(MessageQueue, st.sampled_from(["orders", "bills"]), st.sampled_from(["a", "b"]), st.integers(0, 3))
offsets = st.dictionaries(queues, st.integers(0, 1000), max_size=8)


@given(offsets, st.none() | offsets)
def test_positions_survive_the_checkpoint(ends, begins):
    position = Position(ends, ends if begins is None else begins)

    assert parse_position(format_position(position)) == position
    assert parse_position(format_position(position)).is_initial == position.is_initial
    assert parse_offsets(format_offsets(ends)) == ends


@pytest.mark.parametrize(
    "document", [None, [], {}, {"orders": {"a": {"0": 1}}}, {"queues": {}, "more": {}}, {"queues": {"t": 1}}]
)
def test_a_foreign_checkpoint_is_refused(document):
    with pytest.raises(InvalidArgument):
        parse_position(document)
