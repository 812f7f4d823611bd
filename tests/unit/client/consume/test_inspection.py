"""Consumers that answer their administrators, through a broker of ours."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from orbitmq import ConsumeFrom, Message, Producer, PushConsumer
from orbitmq.admin import AdminClient
from orbitmq.client.consume import inspection
from orbitmq.client.consume.inspection import DirectConsumption
from orbitmq.model.route import MessageQueue
from orbitmq.model.topic import TopicConfig
from orbitmq.net.pool import ConnectionPool
from orbitmq.testing import LocalCluster
from orbitmq.wire.bodies.consumer_info import ConsumeResult, decode_direct_result, decode_running_info
from orbitmq.wire.bodies.offsets import decode_clients_offsets, decode_offset_table
from orbitmq.wire.headers import (
    ConsumeMessageDirectly,
    GetClientsOffsets,
    GetRunningInfo,
    QueryConsumerOffset,
    ResetGroupOffset,
)
from unit.client.messages import stored
from waiting import until

pytestmark = pytest.mark.real

QUEUE = MessageQueue("t", "broker-a", 0)


class Harness:
    """A broker with three messages in one queue, a consumer that has done them, and what it got."""

    def __init__(self, broker, pool, consumer, got, sent):
        self.consumer, self.got, self.sent = consumer, got, sent
        self._broker, self._pool = broker, pool

    async def ask(self, header):
        return await self._pool.request(self._broker, header, timeout_ms=20_000)


@asynccontextmanager
async def harness(*, handles=True, settings=None, **options):
    got = []
    pool = ConnectionPool()
    if handles:
        options["message_handler"] = lambda message: got.append(message.body)
    async with LocalCluster(settings=settings) as cluster, AdminClient(cluster.name_servers) as admin:
        await admin.create_topic(TopicConfig(topic="t", read_queue_count=1, write_queue_count=1))
        async with Producer("p", cluster.name_servers) as producer:
            sent = [await producer.send(Message("t", b"%d" % n), timeout_ms=20_000) for n in range(3)]
        consumer = PushConsumer("g", cluster.name_servers, consume_from=ConsumeFrom.FIRST, **options)
        consumer.subscribe("t")
        async with consumer:
            await consumer.assigned()
            await until(lambda: len(got) == 3 or not handles)
            (broker,) = (await admin.cluster_info()).brokers.values()
            yield Harness(broker.addresses[0], pool, consumer, got, sent)
    await pool.close()


async def test_a_consumer_tells_its_state_and_consumes_a_message_on_request():
    async with harness(max_attempts=5) as found:
        client_id = found.consumer.client_id
        await until(lambda: found.consumer._member.assignment[QUEUE].describe().commit_offset == 3)
        answer = await found.ask(GetRunningInfo(consumer_group="g", client_id=client_id, jstack_enable=True))
        info = decode_running_info(answer.body)
        answer = await found.ask(GetClientsOffsets(group="g", topic="t"))
        assert decode_clients_offsets(answer.body) == {client_id: {QUEUE: 3}}
        for empty in (GetRunningInfo(consumer_group="h", client_id="c"), GetClientsOffsets(group="h", topic="t")):
            assert (await found.ask(empty)).code == 1
        message_id = found.sent[1].offset_message_id
        asked = ConsumeMessageDirectly(consumer_group="g", client_id=client_id, message_id=message_id)
        result = decode_direct_result((await found.ask(asked)).body)
        assert (result.outcome, found.got[3:]) == (ConsumeResult.SUCCESS, [b"1"])
    assert info.properties["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
    assert info.properties["maxReconsumeTimes"] == "4"
    assert info.properties["PROP_NAMESERVER_ADDR"].endswith(";")
    assert {subscription.topic for subscription in info.subscriptions} == {"t", "%RETRY%g"}
    queue = info.queues[QUEUE]
    assert (queue.commit_offset, queue.cached_count, queue.is_dropped, queue.is_locked) == (3, 0, False, True)
    assert queue.pulled_at_ms > 0
    assert queue.consumed_at_ms > 0
    assert info.statistics["t"].done_rate > 0
    assert info.stacks is not None
    assert "orbitmq handler" in info.stacks


def test_settings_have_the_names_and_units_of_javas():
    settings = PushConsumer(
        "g", "127.0.0.1:1", ordered=True, max_attempts=None, consume_timeout_ms=125_000, window_size_max=3 << 20
    )._settings
    found = inspection.java_properties(settings, started_at_ms=7)
    assert found["PROP_CONSUMEORDERLY"] == "true"
    assert found["PROP_CONSUMER_START_TIMESTAMP"] == "7"
    assert found["consumeTimeout"] == "2"
    assert found["maxReconsumeTimes"] == "-1"
    assert found["pullThresholdSizeForQueue"] == "3"


async def test_a_consumer_without_a_handler_refuses_a_message_on_request():
    async with harness(handles=False) as found:
        asked = ConsumeMessageDirectly(
            consumer_group="g", client_id=found.consumer.client_id, message_id=found.sent[1].offset_message_id
        )
        answer = await found.ask(asked)
        assert (answer.code, "no handler" in (answer.remark or "")) == (1, True)


async def test_clients_that_are_told_of_a_reset_go_back_and_commit_it():
    settings = {"use_server_side_reset_offset": False}
    async with harness(settings=settings) as found:
        await until(lambda: found.consumer._member.assignment[QUEUE].describe().commit_offset == 3)
        await found.consumer.commit_offsets()
        answer = await found.ask(ResetGroupOffset(group="g", topic="t", timestamp_ms=0, is_force=True))
        assert decode_offset_table(answer.body) == {QUEUE: 0}
        await until(lambda: len(found.got) == 6)
        await found.consumer.commit_offsets()
        committed = await found.ask(QueryConsumerOffset(consumer_group="g", topic="t", queue_id=0))
        assert (committed.ext_fields or {})["offset"] == "3"


MESSAGE = stored(7)


def direct(handler=None, message_handler=None, *, is_ordered=False):
    return DirectConsumption(handler, message_handler, timeout_ms=60_000, is_ordered=is_ordered)


@pytest.mark.parametrize(
    ("act", "outcome"),
    [
        (lambda batch: None, ConsumeResult.SUCCESS),
        (lambda batch: batch.commit(), ConsumeResult.SUCCESS),
        (lambda batch: batch.retry(), ConsumeResult.LATER),
        (lambda batch: batch.suspend(), ConsumeResult.LATER),
        (lambda batch: batch.reject(batch[0]), ConsumeResult.LATER),
    ],
)
async def test_a_batch_handler_says_what_became_of_it(act, outcome):
    result = await direct(act).consume(MESSAGE)
    assert (result.outcome, result.remark, result.is_ordered) == (outcome, None, False)


async def test_a_message_handler_gets_the_message_itself():
    got = []

    async def handle(message):
        got.append(message)

    result = await direct(message_handler=handle, is_ordered=True).consume(MESSAGE)
    assert (result.outcome, result.is_ordered, got) == (ConsumeResult.SUCCESS, True, [MESSAGE])


async def test_what_a_handler_raises_is_told():
    def handle(message):
        raise ValueError("no such order")

    result = await direct(message_handler=handle).consume(replace(MESSAGE))
    assert (result.outcome, result.remark) == (ConsumeResult.THROW_EXCEPTION, "ValueError: no such order")


def test_a_consumer_without_a_handler_has_none():
    assert not direct().has_handler
    assert direct(print).has_handler


async def test_tasks_and_threads_are_named_with_where_they_are(monkeypatch):
    async def waits_for_ever():
        await asyncio.Event().wait()

    task = asyncio.create_task(waits_for_ever(), name="the waiting one")
    await asyncio.sleep(0)
    text = inspection.describe_stacks()
    assert "task the waiting one" in text
    assert "in waits_for_ever" in text
    assert "thread MainThread" in text
    monkeypatch.setattr(inspection, "SIZE_MAX", 100)
    assert len(inspection.describe_stacks()) == 100
    task.cancel()
