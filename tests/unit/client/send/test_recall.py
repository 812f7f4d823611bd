from datetime import UTC, datetime

import pytest

from orbitmq.client.producer import Producer
from orbitmq.client.send.recall import Recaller
from orbitmq.errors import InvalidArgument, RemoteRefused
from orbitmq.model.message import Message
from orbitmq.testing import LocalCluster
from orbitmq.wire.messages.recall_handle import parse_recall_handle

pytestmark = pytest.mark.real

FAST = {"timer_precision_ms": 100, "recall_message_enable": True}


async def test_a_message_is_taken_back_by_the_handle_of_its_send():
    assert Recaller.recall.__doc__
    async with LocalCluster(settings=FAST) as cluster, Producer("p", cluster.name_servers) as producer:
        sent = await producer.send(Message("t", b"x", delay_ms=60_000))
        assert sent.recall_handle is not None
        assert await producer.recall(sent.recall_handle) == sent.message_id
        with pytest.raises(InvalidArgument, match="recall_handle"):
            await producer.recall("x")


async def test_a_plain_message_has_no_handle_and_a_broker_may_forbid_it():
    async with LocalCluster() as cluster, Producer("p", cluster.name_servers) as producer:
        assert (await producer.send(Message("t", b"x"))).recall_handle is None
        assert (await producer.send(Message("t", b"x", delay_level=3))).recall_handle is None
        later = datetime.fromtimestamp(datetime.now(UTC).timestamp() + 60, UTC)
        sent = await producer.send(Message("t", b"x", deliver_at=later))
        due_ms = int(parse_recall_handle(sent.recall_handle or "").time)
        assert 0 <= later.timestamp() * 1000 - due_ms < 1_000
        with pytest.raises(RemoteRefused, match="forbidden") as caught:
            await producer.recall(sent.recall_handle or "")
        assert caught.value.code == 16
