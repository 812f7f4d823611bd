"""Which requests acknowledge messages."""

from __future__ import annotations

from orbitmq.client.consume.popped_messages import AckRequest, ack_requests
from orbitmq.model.message import StoredMessage
from orbitmq.wire.headers import AckMessage, BatchAckMessages
from orbitmq.wire.pop.batch_acks import BatchAck, decode_batch_acks


def message(handle: str, topic: str = "t") -> StoredMessage:
    return StoredMessage(
        topic=topic,
        body=b"",
        properties={"POP_CK": handle},
        queue_id=2,
        queue_offset=6,
        physical_offset=0,
        store_size=0,
    )


def test_one_message_has_a_request_that_names_its_real_topic():
    (request,) = ack_requests("g", [message("4 5 60 3 1 a 0 6")])
    header = AckMessage(
        consumer_group="g", topic="%RETRY%g_t", queue_id=0, handle="4 5 60 3 1 a 0 6", queue_offset=6, broker_name="a"
    )
    assert request == AckRequest("a", header)


def test_many_messages_share_a_request_for_each_broker():
    first, second = ack_requests(
        "g",
        [
            message("4 5 60 3 0 a 2 6"), message("4 5 60 3 0 a 2 4"), message("4 5 60 3 1 a 0 4"),
            message("4 5 60 3 0 b 2 4"),
        ],
    )  # fmt: skip
    assert (first.broker_name, second.broker_name) == ("a", "b")
    assert first.header == BatchAckMessages()
    acks = decode_batch_acks(first.body)
    assert acks.broker_name == "a"
    assert list(acks.acks()) == [
        BatchAck("g", "t", "0", 4, 2, 3, 5, 60, [4, 6]),
        BatchAck("g", "t", "1", 4, 0, 3, 5, 60, [4]),
    ]


def test_a_message_far_behind_its_checkpoints_beginning_goes_alone():
    far, near = ack_requests("g", [message("4 5 60 3 0 a 2 4"), message("4 5 60 3 0 a 2 260")])
    assert isinstance(far.header, AckMessage)
    assert far.header.queue_offset == 260
    assert isinstance(near.header, BatchAckMessages)


def test_nothing_needs_no_request():
    assert ack_requests("g", []) == []
