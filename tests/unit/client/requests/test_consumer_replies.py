import pytest

from orbitmq.client.requests.consumer_replies import ConsumerReplies
from orbitmq.errors import InvalidArgument, SendFailed
from orbitmq.model.message import Message, ReplyTo
from orbitmq.wire.headers import SendReplyV2
from orbitmq.wire.messages.properties import parse_properties
from unit.client.support import open_session


async def test_replies_carry_the_consumers_group_and_ids_of_their_own(cluster):
    cluster.topic("c_REPLY_TOPIC", count=1)
    async with open_session(cluster) as session:
        replies = ConsumerReplies(session, "repliers")
        for _ in range(2):
            with pytest.raises(SendFailed):
                await replies.send(
                    Message("c_REPLY_TOPIC", bytes(5_000), in_reply_to=ReplyTo("id", "gone", None, "broker-a")), 20_000
                )
    first, second = (header for header in cluster.a.requests if isinstance(header, SendReplyV2))
    assert (first.producer_group, first.sys_flag & 1) == ("repliers", 1)
    ids = [parse_properties(header.properties or "")["UNIQ_KEY"] for header in (first, second)]
    assert len({*ids}) == 2
    assert all(len(one) == 32 for one in ids)
    assert "TTL" not in parse_properties(first.properties or "")


async def test_what_is_no_reply_is_refused(cluster):
    async with open_session(cluster) as session:
        with pytest.raises(InvalidArgument, match=r"StoredMessage\.reply"):
            await ConsumerReplies(session, "g").send(Message("t", b""), 20_000)
