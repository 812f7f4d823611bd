"""Claims about a tracing client: it tells what became of its messages, and neither waits nor fails because of that."""

import asyncio
import zlib

import pytest

from cases import each_case
from orbitmq import Decision, TransactionProducer
from orbitmq.client.producer import Producer
from orbitmq.client.pull_consumer import PullConsumer
from orbitmq.client.send.request import encode_message
from orbitmq.client.send.sender import Sender
from orbitmq.client.trace import tracer
from orbitmq.client.trace.spool import COUNT_MAX, PACK_COUNT_MAX
from orbitmq.client.trace.tracer import TRACE_TOPIC, Tracer
from orbitmq.model.message import Message, StoredMessage
from orbitmq.model.route import MessageQueue
from orbitmq.wire.headers import CheckTransactionState, EndTransaction
from orbitmq.wire.messages.traces import (
    ConsumeReturnType,
    ConsumptionBegun,
    ConsumptionEnded,
    MessageKind,
    Published,
    Recalled,
    TransactionEnded,
    decode_traces,
)
from waiting import until

from ..support import open_session


def told(cluster, topic=TRACE_TOPIC):
    bodies = (zlib.decompress(body) if body[:1] == b"x" else body for body in cluster.a.bodies(topic))
    return [trace for body in bodies for trace in decode_traces(body)]


def received(topic="orders", **properties):
    return StoredMessage(
        topic=topic, body=b"", properties={"UNIQ_KEY": "ID", "KEYS": "k1 k2", **properties}, queue_id=0, queue_offset=0,
        physical_offset=0, store_size=1, reconsume_times=3,
    )  # fmt: skip


async def test_a_producer_tells_of_every_message_that_a_broker_has_stored(cluster):
    cluster.topic("orders", count=1)
    cluster.topic(TRACE_TOPIC, count=1)
    async with Producer("makers", cluster.name_servers, trace=True) as producer:
        one = await producer.send(Message("orders", b"hello", keys=["k1", "k2"], tag="t"))
        batch = await producer.send_batch([Message("orders", b"1"), Message("orders", b"22", delay_level=0)])
    traces = told(cluster)
    assert all(isinstance(trace, Published) for trace in traces)
    assert [trace.message_id for trace in traces] == [sent.message_id for sent in (one, *batch)]
    first = traces[0]
    assert (first.group, first.topic, first.tags, first.keys, first.body_size) == ("makers", "orders", "t", "k1 k2", 5)
    assert (first.region, first.kind, first.is_success) == ("DefaultRegion", MessageKind.NORMAL, True)
    assert (first.broker, first.offset_message_id) == (cluster.a.address, one.offset_message_id)
    assert (traces[1].tags, traces[1].keys, traces[2].body_size) == (None, None, 2)


async def test_traces_go_where_the_user_says_and_are_not_traced_themselves(cluster):
    cluster.topic("orders", count=1)
    cluster.topic("my_traces", count=1)
    async with Producer("makers", cluster.name_servers, trace=True, trace_topic="my_traces") as producer:
        sent = await producer.send(Message("orders", b"hello"))
        await producer.send(Message("my_traces", b"by hand"))
    assert [trace.message_id for trace in told(cluster, "my_traces")] == [sent.message_id]


async def test_a_trace_is_told_soon_without_the_end_of_its_client(cluster, monkeypatch):
    monkeypatch.setattr(tracer, "FLUSH_MS", 1)
    cluster.topic("orders", count=1)
    cluster.topic(TRACE_TOPIC, count=1)
    async with Producer("makers", cluster.name_servers, trace=True) as producer:
        await producer.send(Message("orders", b"hello"))
        await until(lambda: told(cluster), pause_s=0.001)


async def test_a_send_succeeds_whatever_becomes_of_its_trace(cluster, monkeypatch, caplog):
    monkeypatch.setattr(tracer, "SEND_TIMEOUT_MS", 50)
    cluster.topic("orders", count=1)  # and there is no trace topic
    producer = Producer("makers", cluster.name_servers, trace=True)
    async with producer:
        sent = await producer.send(Message("orders", b"hello"))
    assert sent.status == "SEND_OK"
    assert producer._tracer.untold_count == 1
    assert "traces of makers that no broker took: 1" in caplog.text


async def test_a_close_waits_for_its_traces_for_a_while_only(cluster, monkeypatch, caplog):
    monkeypatch.setattr(tracer, "CLOSE_MS", 1)
    cluster.topic("orders", count=1)

    async def never(*_):
        await asyncio.Event().wait()

    async with Producer("makers", cluster.name_servers, trace=True) as producer:
        await producer.send(Message("orders", b"hello"))
        monkeypatch.setattr(producer._tracer, "_tell", never)
    assert "were not told before the end" in caplog.text


async def test_what_is_on_its_way_when_a_close_gives_up_is_counted(cluster, monkeypatch, caplog):
    monkeypatch.setattr(tracer, "CLOSE_MS", 1)
    cluster.topic("orders", count=1)

    async def never(*_):
        await asyncio.Event().wait()

    producer = Producer("makers", cluster.name_servers, trace=True)
    async with producer:
        await producer.send(Message("orders", b"hello"))
        monkeypatch.setattr(producer._tracer._sender, "send", never)
    assert "were not told before the end: 1" in caplog.text
    assert producer._tracer.untold_count == 1


async def test_a_close_tells_what_was_on_its_way_as_well(cluster, monkeypatch):
    monkeypatch.setattr(tracer, "FLUSH_MS", 1)
    cluster.topic("orders", count=1)
    cluster.topic(TRACE_TOPIC, count=1)
    begun = asyncio.Event()
    send = Sender.send

    async def slow(sender, batch, target):
        if not begun.is_set():
            begun.set()
            for _ in range(50):  # the close comes in between
                await asyncio.sleep(0)
        return await send(sender, batch, target)

    async with Producer("makers", cluster.name_servers, trace=True) as producer:
        sent = await producer.send(Message("orders", b"hello"))
        monkeypatch.setattr(Sender, "send", slow)
        await begun.wait()
    assert [trace.message_id for trace in told(cluster)] == [sent.message_id]


async def test_more_traces_than_have_room_are_dropped_and_counted(cluster, caplog):
    async with open_session(cluster) as session:
        found = Tracer(session, group="g", kind="CONSUME", topic=TRACE_TOPIC)
        for _ in range(COUNT_MAX + 3):
            found.begun([received()])
        assert found.untold_count == 3
    assert "traces of g that found no room: 1" in caplog.text


async def test_what_its_producer_or_broker_wants_untraced_stays_so(cluster):
    async with open_session(cluster) as session:
        found = Tracer(session, group="g", kind="CONSUME", topic=TRACE_TOPIC)
        assert found.begun([received(TRACE_ON="false"), received(TRACE_TOPIC)]) is None
        found.transaction_ended(Message(TRACE_TOPIC, b""), "ID", "b", "COMMIT_MESSAGE", is_asked=False)
        assert len(found._spool) == 0


@pytest.mark.parametrize(
    ("topic", "is_traced"),
    [("orders", False), ("orders-eu", True), (TRACE_TOPIC, False), ("rmq_sys_TRACE_DATA_cn-hangzhou", False)],
)
async def test_only_trace_topics_are_not_traced_however_the_users_one_begins(cluster, topic, is_traced):
    async with open_session(cluster) as session:
        found = Tracer(session, group="g", kind="CONSUME", topic="orders")
        assert found.is_traced(received(topic)) is is_traced


async def test_consumptions_decisions_and_recalls_are_told_with_all_that_java_tells(cluster, monkeypatch):
    monkeypatch.setattr(tracer, "now_ms", lambda: 1_000)
    cluster.topic(TRACE_TOPIC, count=1)
    async with open_session(cluster) as session:
        found = Tracer(session, group="g", kind="CONSUME", topic=TRACE_TOPIC)
        found.open()
        request_id = found.begun([received(MSG_REGION="north"), received(TRACE_ON="false")])
        assert request_id is not None
        found.ended([received(), received(TRACE_ON="false")], request_id, ConsumeReturnType.FAILED, 7)
        found.transaction_ended(Message("orders", b"", keys=["k"], tag="t"), "ID", "b:1", "UNKNOW", is_asked=True)
        found.recalled("orders", "ID", {"MSG_REGION": "south"}, is_success=False)
        await found.close()
        await found.close()
    assert told(cluster) == [
        ConsumptionBegun(1_000, "north", "g", request_id, "ID", 3, "k1 k2"),
        ConsumptionEnded(request_id, "ID", 7, False, "k1 k2", ConsumeReturnType.FAILED, 1_000, "g"),
        TransactionEnded(
            1_000, "DefaultRegion", "g", "orders", "ID", "t", "k", "b:1", MessageKind.COMMIT, "ID", "UNKNOW", True
        ),
        Recalled(1_000, "south", "g", "orders", "ID", is_success=False),
    ]


async def test_many_traces_are_sent_immediately(cluster):
    cluster.topic(TRACE_TOPIC, count=1)
    async with open_session(cluster) as session:
        found = Tracer(session, group="g", kind="CONSUME", topic=TRACE_TOPIC)
        found.open()
        for _ in range(PACK_COUNT_MAX):
            found.begun([received()])
        await until(lambda: len(told(cluster)) == PACK_COUNT_MAX, pause_s=0.001)


@each_case(({"delay_level": 3}, None, MessageKind.DELAYED), ({}, "g", MessageKind.HALF), ({}, None, MessageKind.NORMAL))
def test_the_kind_of_a_message_is_told(fields, half_of, kind):
    encoded = encode_message(Message("t", b"", **fields), "ID", 100, half_of=half_of)
    assert tracer._kind_of(encoded) is kind


async def test_a_transactions_half_and_each_decision_about_it_are_told(cluster):
    cluster.topic("orders", count=1)
    cluster.topic(TRACE_TOPIC, count=1)
    check = lambda message: Decision.ROLLBACK  # noqa: E731
    async with TransactionProducer("makers", cluster.name_servers, check=check, trace=True) as producer:
        async with producer.transaction(Message("orders", b"x")) as transaction:
            pass
        cluster.a.append("orders", 0, b"x", {"PGROUP": "makers", "UNIQ_KEY": "K", "KEYS": "k"})
        _, record, _ = cluster.a.queues["orders", 0][-1]
        question = CheckTransactionState(tran_state_table_offset=7, commit_log_offset=9)
        cluster.a.clients[producer._session.id].send_oneway(question, record)
        ends = cluster.a.requests
        await until(lambda: sum(isinstance(request, EndTransaction) for request in ends) == 2, pause_s=0.001)
    half, decided, asked = told(cluster)
    assert (half.kind, half.message_id) == (MessageKind.HALF, transaction.sent.message_id)
    assert (decided.state, decided.message_id, decided.is_asked) == ("COMMIT_MESSAGE", half.message_id, False)
    assert (asked.state, asked.message_id, asked.is_asked, asked.keys) == ("ROLLBACK_MESSAGE", "K", True, "k")


async def test_a_pull_consumer_tells_of_what_a_poll_gives(cluster):
    cluster.topic("orders", count=1)
    cluster.topic(TRACE_TOPIC, count=1)
    cluster.a.put("orders", 0, b"1", b"2")
    queue = MessageQueue("orders", "broker-a", 0)
    async with PullConsumer("auditors", cluster.name_servers, trace=True) as consumer:
        consumer.assign([queue])
        (first,) = await consumer.poll(timeout_ms=60_000, count_max=1)
    assert first.message_id == "", "a message without an id stops no trace"
    begun, ended = told(cluster)
    assert isinstance(begun, ConsumptionBegun)
    assert isinstance(ended, ConsumptionEnded)
    assert begun.message_id == ended.message_id == first.message_id
    assert (begun.group, ended.outcome, ended.is_success) == ("auditors", ConsumeReturnType.SUCCESS, True)
    assert begun.request_id == ended.request_id
