from __future__ import annotations

from cases import each_case
from orbitmq.broker.transactions.messages import op_form
from orbitmq.broker.transactions.ops import OpBatch, OpSpans, removed_offsets
from orbitmq.wire.messages.record import Record, format_record, parse_record


def op(body: bytes, properties: bytes = b"TAGS\x01d\x02") -> Record:
    record = parse_record(format_record(topic="ops", body=body, properties=properties))
    assert isinstance(record, Record)
    return record


def test_what_has_ended_is_said_in_few_messages() -> None:
    batch = OpBatch(12)
    assert batch.next() is None
    for offset in (100, 7, 200, 3000):
        batch.add(offset)
    assert len(batch) == 4
    assert batch.is_full
    first = batch.next()
    assert first == (b"100,7,200,3000,", 4, 3000)
    batch.add(50)
    assert batch.next() == first
    batch.written(4)
    assert not batch.is_full
    assert batch.next() == (b"50,", 1, 3000)
    batch.written(1)
    assert batch.next() is None
    batch.add(2)
    assert batch.next() == (b"2,", 1, 2)


def test_a_message_is_full_once_it_has_its_size() -> None:
    batch = OpBatch(4)
    for offset in (1, 2, 3):
        batch.add(offset)
    assert batch.next() == (b"1,2,", 2, 3)
    batch.written(2)
    assert batch.next() == (b"3,", 1, 3)


def test_a_refused_end_is_taken_back() -> None:
    batch = OpBatch(100)
    batch.add(1)
    batch.add(222)
    batch.drop_last()
    assert batch.next() == (b"1,", 1, 222)


@each_case((b"1,22,333,", [1, 22, 333]), (b"5", [5]), (b"", []), (b"x,-1,6,," + b"9" * 20 + b",\xff", [6]))
def test_an_op_message_is_read_as_java_writes_it(body: bytes, offsets: list[int]) -> None:
    assert list(removed_offsets(op(body))) == offsets
    assert list(removed_offsets(op(body, b"TAGS\x01x\x02"))) == []
    assert list(removed_offsets(op(body, b""))) == []
    assert op_form(body, 0).properties == b"TAGS\x01d\x02"


def test_the_op_queue_is_done_up_to_what_still_names_a_half_message_of_the_window() -> None:
    spans = OpSpans(10)
    for number in range(200):
        spans.add(10 + number, number)
    spans.release(60)
    assert spans.done == 10
    spans.release(64)
    assert spans.done == 74
    spans.release(10_000)
    assert spans.done == 210


def test_an_op_message_that_names_nothing_is_done_immediately() -> None:
    spans = OpSpans()
    spans.add(0, -1)
    spans.release(0)
    assert spans.done == 1
