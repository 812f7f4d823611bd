"""Answers lie back to back in the buffer, whether they were received into it or copied."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.spark.reading.answer_buffer import AnswerBuffer
from orbitmq.spark.reading.record_batches import decode_records
from orbitmq.spark.schema import COLUMN_NAMES
from orbitmq.wire.messages.record import format_record

answers = st.lists(st.tuples(st.binary(max_size=6), st.booleans()), max_size=8)


@given(answers, st.integers(0, 20))
def test_what_was_added_is_there_in_order(added, capacity):
    buffer, expected = AnswerBuffer(capacity), b""

    for records, is_received in added:
        room = buffer.room(len(records))
        if room is None:
            buffer.clear()
            expected = b""
        elif is_received:
            room[:] = records
        buffer.add(room if room is not None and is_received else records)
        expected += records

        assert bytes(buffer.records) == expected
        assert len(buffer) == len(expected)


def test_room_that_was_not_added_is_given_again():
    buffer = AnswerBuffer(10)
    buffer.room(5)[:] = b"wrong"

    buffer.add(b"right")

    assert bytes(buffer.records) == b"right"


def test_answers_without_room_are_not_cut():
    buffer = AnswerBuffer(4)
    buffer.add(b"abc")

    with pytest.raises(AssertionError):
        buffer.add(b"de")


def test_decoded_batches_do_not_change_with_the_buffer():
    buffer = AnswerBuffer(1 << 16)
    for offset in range(20):
        properties = f"TAGS\x01{offset}\x02KEYS\x01k\x02".encode() if offset % 3 else b""
        buffer.add(format_record(topic="t", queue_offset=offset, body=b"body", properties=properties))
    (batch,) = decode_records(buffer.records, COLUMN_NAMES, broker_name="b")
    before = batch.to_pylist()

    buffer.clear()
    buffer.add(b"\xff" * (1 << 16))

    assert batch.to_pylist() == before
