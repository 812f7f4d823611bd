"""Questions to one broker: what it has not counted, clients that are not there, messages that are gone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from orbitmq import Message, Producer
from orbitmq.admin import AdminClient
from orbitmq.admin.one_broker import BrokerAdmin
from orbitmq.codes import ResponseCode
from orbitmq.errors import RemoteRefused
from orbitmq.model.route import MessageQueue
from orbitmq.testing import LocalCluster
from orbitmq.wire.bodies.groups import ProducerInfo, encode_producer_table
from orbitmq.wire.command import Command

QUEUE = MessageQueue("orders", "broker-a", 0)


def refusing(code: int) -> BrokerAdmin:
    async def request(address: str, _header: object) -> Command:
        raise RemoteRefused(code, "no", address)

    return BrokerAdmin(request, "a:1")


QUESTIONS: list[tuple[int, Callable[[BrokerAdmin], object]]] = [
    (ResponseCode.SYSTEM_ERROR, lambda broker: broker.stats("TOPIC_PUT_NUMS", "orders")),
    (ResponseCode.CONSUMER_NOT_ONLINE, lambda broker: broker.consumers("billing")),
    (ResponseCode.PULL_NOT_FOUND, lambda broker: broker.stored_at_ms(QUEUE, 7)),
    (ResponseCode.PULL_OFFSET_MOVED, lambda broker: broker.stored_at_ms(QUEUE, 7)),
]


@pytest.mark.parametrize(("code", "ask"), QUESTIONS)
async def test_an_answer_that_says_there_is_nothing_is_none(code, ask) -> None:
    assert await ask(refusing(code)) is None


@pytest.mark.parametrize(("_code", "ask"), QUESTIONS)
async def test_any_other_refusal_is_raised(_code, ask) -> None:
    with pytest.raises(RemoteRefused):
        await ask(refusing(ResponseCode.NO_PERMISSION))


async def test_producers_are_counted_by_group() -> None:
    producers = [ProducerInfo(client, "10.0.0.1:5", "JAVA", 1, 0) for client in ("one", "two")]

    async def request(_address: str, _header: object) -> Command:
        return Command(code=0, body=encode_producer_table({"makers": producers, "none": []}))

    assert await BrokerAdmin(request, "a:1").producer_counts() == {"makers": 2, "none": 0}


@pytest.mark.real
async def test_a_message_at_a_queue_offset_has_its_store_time_and_one_behind_the_end_has_none() -> None:
    async with LocalCluster() as cluster, AdminClient(cluster.name_servers) as admin:
        async with Producer("makers", cluster.name_servers) as producer:
            sent = await producer.send(Message("orders", b"{}"))
        broker = await admin.broker(cluster.brokers["broker-a"])
        (message,) = (await admin.messages_by_key("orders", sent.message_id)).messages
        assert await broker.stored_at_ms(sent.queue, sent.queue_offset) == message.stored_at_ms
        assert await broker.stored_at_ms(sent.queue, sent.queue_offset + 1) is None
        assert "orders" in await broker.topics()
