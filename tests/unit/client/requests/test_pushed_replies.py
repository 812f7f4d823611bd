from typing import cast

import pytest

from orbitmq.client.requests.pending import PendingRequests
from orbitmq.client.requests.pushed_replies import take_reply
from orbitmq.errors import ClientError, Rejected
from orbitmq.model.message import Host
from orbitmq.net.dispatch.handlers import Call
from orbitmq.net.dispatch.peer import Peer
from orbitmq.wire.command import Command
from orbitmq.wire.headers import PushReply
from orbitmq.wire.messages.compression import CompressionType, compress


def call(properties, body=b"yes", **fields):
    header = PushReply(
        **{
            "producer_group": "p", "topic": "c_REPLY_TOPIC", "default_topic": "TBW102", "default_topic_queue_nums": 4,
            "queue_id": 3, "sys_flag": 0, "born_at_ms": 5, "flag": 7, "properties": properties,
            "born_host": "10.0.0.1:2", "store_host": "::1:3", "stored_at_ms": 6, **fields,
        }
    )  # fmt: skip
    return Call(header, Command(326, body=body), cast(Peer, None), now_ms=1_000)


@pytest.mark.parametrize("compression", [None, *CompressionType])
async def test_a_reply_is_a_message_as_a_consumer_would_get_it(compression):
    pending = PendingRequests(1)
    body, sys_flag = b"yes" * 100, 0
    if compression is not None:
        body, sys_flag = compress(body, compression), compression.sys_flag
    async with pending.open(20_000) as request:
        properties = f"CORRELATION_ID\x01{request.correlation_id}\x02TAGS\x01t\x02"
        assert take_reply(pending, call(properties, body, sys_flag=sys_flag)).code == 0
        reply = await request.reply
    assert (reply.body, reply.tag, reply.queue_id, reply.flag) == (b"yes" * 100, "t", 3, 7)
    assert (reply.born_at_ms, reply.stored_at_ms, reply.properties["ARRIVE_TIME"]) == (5, 6, "1000")
    assert (reply.born_host, reply.store_host) == (Host("10.0.0.1", 2), Host("::1", 3))


async def test_a_reply_that_nobody_waits_for_is_confirmed_all_the_same():
    assert take_reply(PendingRequests(1), call("CORRELATION_ID\x01late\x02")).code == 0


@pytest.mark.parametrize("properties", [None, "", "TAGS\x01t\x02"])
async def test_a_reply_that_names_no_request_is_refused(properties):
    with pytest.raises(Rejected, match="process reply message fail") as refused:
        take_reply(PendingRequests(1), call(properties))
    assert refused.value.code == 1


@pytest.mark.parametrize(
    "fields",
    [{"sys_flag": CompressionType.ZLIB.sys_flag}, {"born_host": "nowhere"}, {"store_host": ""}],
)
async def test_a_reply_that_cannot_be_read_fails_its_request_at_once(fields):
    pending = PendingRequests(1)
    async with pending.open(20_000) as request:
        with pytest.raises(Rejected, match="process reply message fail"):
            take_reply(pending, call(f"CORRELATION_ID\x01{request.correlation_id}\x02", b"no zlib", **fields))
        with pytest.raises(ClientError, match="cannot be read"):
            await request.reply
