import zlib

import pytest

from orbitmq.client.send.request import encode_message, send_header
from orbitmq.errors import InvalidArgument
from orbitmq.model.message import Message, SysFlag
from orbitmq.model.route import MessageQueue
from orbitmq.wire.messages.properties import parse_properties

QUEUE = MessageQueue("t", "a", 3)


def encoded(body=b"x", **fields):
    return encode_message(Message("t", body, **fields), "ID", compress_over=100)


def test_a_messages_fields_become_properties():
    found = encoded(tag="new", keys=["k1", "k2"], delay_level=3, sharding_key="s", properties={"own": "value"}, flag=9)
    assert parse_properties(found.properties) == {
        "own": "value", "KEYS": "k1 k2", "TAGS": "new", "DELAY": "3", "__SHARDINGKEY": "s", "UNIQ_KEY": "ID",
        "WAIT": "true",
    }  # fmt: skip
    assert (found.flag, found.sys_flag, found.body) == (9, 0, b"x")


def test_a_body_over_the_limit_is_compressed_and_marked():
    found = encoded(b"y" * 101)
    assert found.sys_flag == SysFlag.COMPRESSED | SysFlag.COMPRESSION_ZLIB
    assert zlib.decompress(found.body) == b"y" * 101
    assert encoded(b"y" * 100).sys_flag == 0


@pytest.mark.parametrize("name", ["KEYS", "UNIQ_KEY", "TRAN_MSG"])
def test_a_property_that_rocketmq_uses_itself_is_refused(name):
    with pytest.raises(InvalidArgument, match=name):
        encoded(properties={name: "x"})


def test_a_tag_that_is_an_expression_is_refused():
    with pytest.raises(InvalidArgument, match="one tag"):
        encoded(tag="A || B")


def test_the_header_names_group_queue_and_template():
    header = send_header(encoded(), "g", QUEUE, 1_000, 4)
    assert (header.producer_group, header.topic, header.queue_id, header.born_at_ms) == ("g", "t", 3, 1_000)
    assert (header.default_topic, header.default_topic_queue_nums, header.batch) == ("TBW102", 4, False)
    assert (header.sys_flag, header.flag, header.reconsume_times, header.unit_mode) == (0, 0, 0, False)
