import pytest

from cases import each_case
from orbitmq.client.send.batch import EncodedBatch, batch_body, batch_header, check_batch, first_of, fits_batch, split
from orbitmq.client.send.request import SendKind, encode_message
from orbitmq.errors import InvalidArgument
from orbitmq.model.message import Message, ReplyTo
from orbitmq.model.route import MessageQueue
from orbitmq.wire.messages.batch import parse_batch
from unit.client.messages import encoded

QUEUE = MessageQueue("t", "a", 3)


def test_the_header_of_a_batch_says_so_and_leaves_properties_to_its_messages():
    header = batch_header("t", "g", QUEUE, 1_000, 4)
    assert (header.producer_group, header.topic, header.queue_id, header.born_at_ms) == ("g", "t", 3, 1_000)
    assert (header.default_topic, header.default_topic_queue_nums, header.broker_name) == ("TBW102", 4, "a")
    assert (header.batch, header.unit_mode, header.flag, header.sys_flag) == (True, False, 0, 0)
    assert (header.properties, header.reconsume_times) == ("", 0)


def test_a_batch_holds_its_messages_in_order():
    items = parse_batch(batch_body([encoded(b"1"), encoded(b"2")]))
    assert [item.body for item in items] == [b"1", b"2"]


def test_a_list_is_cut_where_it_grows_too_large():
    batch = [encoded(b"x" * 50) for _ in range(5)]
    item_size = batch[0].size + 22
    assert [len(run) for run in split(batch, 2 * item_size)] == [2, 2, 1]
    assert [len(run) for run in split(batch, 1)] == [1] * 5
    assert b"".join(len(batch_body(run)).to_bytes(2, "big") for run in split(batch, 2 * item_size)) == b"".join(
        (count * item_size).to_bytes(2, "big") for count in (2, 2, 1)
    )


@each_case(
    [], [Message("t", b""), Message("u", b"")], [Message("t", b"", delay_level=1)], [Message("t", b"", priority=1)],
    [Message("t", b"", properties={"TIMER_DELAY_SEC": "3"})], [Message("%RETRY%g", b"")],
)  # fmt: skip
def test_what_cannot_travel_in_one_batch_is_refused(messages):
    with pytest.raises(InvalidArgument):
        check_batch(messages)


def test_only_plain_small_messages_travel_with_others():
    message = Message("t", b"x")
    assert fits_batch(encoded(), message, 1_000)
    assert not fits_batch(encoded(), message, 10)
    assert not fits_batch(encoded(b"y" * 101), message, 1_000)
    assert not fits_batch(encoded(), Message("t", b"x", delay_level=1), 1_000)
    assert not fits_batch(encoded(), Message("%RETRY%g", b"x"), 1_000)
    assert fits_batch(encoded(), Message("t", b"x", properties={"a": "b"}), 1_000)
    for name in ("TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"):
        assert not fits_batch(encoded(), Message("t", b"x", properties={"a": "b", name: "1"}), 1_000)


def test_messages_that_were_encoded_together_are_a_batch_already():
    batch = EncodedBatch("t", b"items", 3, "ID")
    assert (batch_body(batch), len(batch), batch.size, batch.kind) == (b"items", 3, 5, SendKind.PLAIN)
    assert first_of(batch) is batch
    assert first_of([found := encoded(), encoded()]) is found


def test_a_message_that_fills_a_batch_to_the_last_byte_fits():
    message, found = Message("t", b"x"), encoded()
    size = len(batch_body([found]))
    assert fits_batch(found, message, size)
    assert not fits_batch(found, message, size - 1)


def test_a_reply_travels_alone() -> None:
    reply = Message("c_REPLY_TOPIC", b"", in_reply_to=ReplyTo("id", "asker", None, "broker-a"))
    with pytest.raises(InvalidArgument, match="no reply inside a batch"):
        check_batch([reply])
    assert not fits_batch(encode_message(reply, "ID", 100), reply, 1024 * 1024)
