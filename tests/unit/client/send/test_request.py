import zlib

import pytest

from orbitmq.client.send.request import (
    SendStatus,
    batch_body,
    batch_header,
    check_batch,
    fits_batch,
    prepare,
    results,
    send_header,
    split,
)
from orbitmq.errors import HeaderError, InvalidArgument
from orbitmq.model.message import Message, SysFlag
from orbitmq.model.route import MessageQueue
from orbitmq.wire.batch import parse_batch
from orbitmq.wire.command import Command
from orbitmq.wire.properties import parse_properties

QUEUE = MessageQueue("t", "a", 3)


def outgoing(body=b"x", **fields):
    return prepare(Message("t", body, **fields), "ID", compress_over=100)


def answer(code=0, **fields):
    return Command(code, ext_fields={"msgId": "OFF", "queueId": "3", "queueOffset": "40", **fields})


def test_a_messages_fields_become_properties():
    found = outgoing(tag="new", keys=["k1", "k2"], delay_level=3, sharding_key="s", properties={"own": "value"}, flag=9)
    assert parse_properties(found.properties) == {
        "own": "value", "KEYS": "k1 k2", "TAGS": "new", "DELAY": "3", "__SHARDINGKEY": "s", "UNIQ_KEY": "ID",
        "WAIT": "true",
    }  # fmt: skip
    assert (found.flag, found.sys_flag, found.body) == (9, 0, b"x")


def test_a_body_over_the_limit_is_compressed_and_marked():
    found = outgoing(b"y" * 101)
    assert found.sys_flag == SysFlag.COMPRESSED | SysFlag.COMPRESSION_ZLIB
    assert zlib.decompress(found.body) == b"y" * 101
    assert outgoing(b"y" * 100).sys_flag == 0


@pytest.mark.parametrize("name", ["KEYS", "UNIQ_KEY", "TRAN_MSG"])
def test_a_property_that_rocketmq_uses_itself_is_refused(name):
    with pytest.raises(InvalidArgument, match=name):
        outgoing(properties={name: "x"})


def test_a_tag_that_is_an_expression_is_refused():
    with pytest.raises(InvalidArgument, match="one tag"):
        outgoing(tag="A || B")


def test_the_header_names_group_queue_and_template():
    header = send_header(outgoing(), "g", QUEUE, 1_000, 4)
    assert (header.producer_group, header.topic, header.queue_id, header.born_at_ms) == ("g", "t", 3, 1_000)
    assert (header.default_topic, header.default_topic_queue_nums, header.batch) == ("TBW102", 4, False)
    assert batch_header("t", "g", QUEUE, 1_000, 4).batch is True


def test_a_batch_holds_its_messages_in_order():
    items = parse_batch(batch_body([outgoing(b"1"), outgoing(b"2")]))
    assert [item.body for item in items] == [b"1", b"2"]


def test_a_list_is_cut_where_it_grows_too_large():
    batch = [outgoing(b"x" * 50) for _ in range(5)]
    item_size = batch[0].size + 22
    assert [len(run) for run in split(batch, 2 * item_size)] == [2, 2, 1]
    assert [len(run) for run in split(batch, 1)] == [1] * 5
    assert b"".join(len(batch_body(run)).to_bytes(2, "big") for run in split(batch, 2 * item_size)) == b"".join(
        (count * item_size).to_bytes(2, "big") for count in (2, 2, 1)
    )


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [Message("t", b""), Message("u", b"")],
        [Message("t", b"", delay_level=1)],
        [Message("%RETRY%g", b"")],
    ],
)
def test_what_cannot_travel_in_one_batch_is_refused(messages):
    with pytest.raises(InvalidArgument):
        check_batch(messages)


def test_only_plain_small_messages_travel_with_others():
    message = Message("t", b"x")
    assert fits_batch(outgoing(), message, 1_000)
    assert not fits_batch(outgoing(), message, 10)
    assert not fits_batch(outgoing(b"y" * 101), message, 1_000)
    assert not fits_batch(outgoing(), Message("t", b"x", delay_level=1), 1_000)
    assert not fits_batch(outgoing(), Message("%RETRY%g", b"x"), 1_000)


def test_a_result_says_where_the_message_is():
    (result,) = results([outgoing()], QUEUE, answer())
    assert result == ("ID", "OFF", QUEUE, 40, SendStatus.SEND_OK)


@pytest.mark.parametrize(
    ("code", "status"),
    [(10, "FLUSH_DISK_TIMEOUT"), (11, "SLAVE_NOT_AVAILABLE"), (12, "FLUSH_SLAVE_TIMEOUT")],
)
def test_a_stored_message_whose_safety_is_in_doubt_says_so(code, status):
    (result,) = results([outgoing()], QUEUE, answer(code))
    assert result.status == status


def test_a_refusal_is_no_result():
    assert results([outgoing()], QUEUE, answer(13)) is None


def test_a_batch_is_answered_with_the_first_offset_and_all_ids():
    found = results([outgoing(), outgoing()], QUEUE, answer(msgId="A,B"))
    assert [(result.offset_message_id, result.queue_offset) for result in found] == [("A", 40), ("B", 41)]
    found = results([outgoing(), outgoing()], QUEUE, answer(msgId=""))
    assert [result.offset_message_id for result in found] == ["", ""]


def test_a_success_without_a_place_is_no_success():
    with pytest.raises(HeaderError, match="msgId"):
        results([outgoing()], QUEUE, Command(0, ext_fields={}))
