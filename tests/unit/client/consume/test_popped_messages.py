"""Messages of a pop's answer and their handles."""

from __future__ import annotations

from typing import Any

import pytest

from cases import each_case
from orbitmq.client.consume.popped_messages import decode_popped, handle_of, with_new_time
from orbitmq.errors import HeaderError, InvalidArgument
from orbitmq.model.message import StoredMessage
from orbitmq.wire.command import Command
from orbitmq.wire.header import encode_header
from orbitmq.wire.headers import ChangeInvisibleTimeResponse, PopResponse
from orbitmq.wire.messages.record import format_record
from orbitmq.wire.pop.handles import Handle

HANDLE = "0 5 60000 3 1 a 0 7"


def answer(*records: bytes, starts: str = "0 2 4", offsets: str = "0 2 4,6", counts: str | None = None) -> Command:
    header = PopResponse(
        pop_time_ms=5, invisible_ms=60_000, revive_queue_id=3, rest_count=0, start_offset_info=starts,
        message_offset_info=offsets, order_count_info=counts,
    )  # fmt: skip
    return Command(0, ext_fields=encode_header(header), body=b"".join(records))


def record(**fields: Any) -> bytes:
    settings: dict[str, Any] = {"topic": "t", "body": b"x", "queue_id": 2, "queue_offset": 6}
    return format_record(**settings | fields)


def test_a_message_gets_its_handle_from_the_answers_texts():
    ((message,), _) = decode_popped(answer(record()), "t", "a")
    assert message.properties == {"POP_CK": "4 5 60000 3 0 a 2 6", "1ST_POP_TIME": "5"}
    assert (message.topic, message.broker_name) == ("t", "a")
    assert handle_of(message) == Handle(4, 5, 60_000, 3, "0", "a", 2, 6)


@each_case((None, 1), ("0 2 3", 3), ("0 qo2%6 2;0 2 0", 2), ("0 qo2%4 2;0 2 0", 1), ("0 9 5", 1))
def test_the_answer_says_how_often_messages_in_order_were_tried(counts: str | None, times: int):
    ((message,), _) = decode_popped(answer(record(reconsume_times=1), counts=counts), "t", "a")
    assert message.reconsume_times == times


def test_a_retry_brings_its_handle_along():
    properties = f"POP_CK\x01{HANDLE}\x021ST_POP_TIME\x011\x02".encode()
    ((message,), _) = decode_popped(answer(record(properties=properties), starts="1 0 0", offsets="1 0 7"), "t", "a")
    assert message.properties == {"POP_CK": HANDLE, "1ST_POP_TIME": "1"}


def test_a_retry_under_its_own_topic_is_known_by_it():
    encoded = record(topic="%RETRY%g_t", queue_id=0, queue_offset=7)
    ((message,), _) = decode_popped(answer(encoded, starts="1 0 7", offsets="1 0 7"), "t", "a")
    assert (message.topic, message.properties["POP_CK"]) == ("t", "7 5 60000 3 1 a 0 7")


def test_an_answer_whose_texts_are_damaged_is_refused():
    with pytest.raises(HeaderError):
        decode_popped(answer(record(), starts="nonsense", offsets=""), "t", "a")


@each_case(
    (record(queue_id=9), "startOffsetInfo does not name queue 9 of t"),
    (record()[:-2] + b"\0\1", "properties do not end with the record"),
)
def test_a_record_that_cannot_be_handed_out_stops_no_other(bad: bytes, reason: str):
    messages, (error,) = decode_popped(answer(record(body=b"1"), bad, record(body=b"2")), "t", "a")
    assert [message.body for message in messages] == [b"1", b"2"]
    assert reason in str(error)


def test_a_body_that_does_not_decompress_is_handed_out_as_it_is_with_the_reason():
    (first, second), errors = decode_popped(answer(record(sys_flag=1), record()), "t", "a")
    assert (first.body, second.decode_error, errors) == (b"x", None, [])
    assert "cut short" in str(first.decode_error)
    assert handle_of(first).queue_offset == 6


def message(handle: str | None) -> StoredMessage:
    properties = {} if handle is None else {"POP_CK": handle}
    return StoredMessage(
        topic="t", body=b"", properties=properties, queue_id=2, queue_offset=6, physical_offset=0, store_size=0
    )


def test_a_handle_without_its_message_is_that_of_the_message():
    found = handle_of(message("4 5 60000 3 0 a"))
    assert (found.queue_id, found.queue_offset) == (2, 6)


def test_a_message_that_was_not_received_has_no_handle():
    with pytest.raises(InvalidArgument, match=r"receive\(\)"):
        handle_of(message(None))


def test_a_changed_time_is_a_checkpoint_of_its_own():
    one = message("4 5 60000 3 0 a 2 6")
    response = ChangeInvisibleTimeResponse(pop_time_ms=9, invisible_ms=7, revive_queue_id=3)
    assert with_new_time(one, handle_of(one), response).properties["POP_CK"] == "6 9 7 3 0 a 2 6"
