import asyncio
from datetime import UTC, datetime

import pytest

from orbitmq import Decision, Message, TransactionProducer
from orbitmq.client.send.result import SendStatus
from orbitmq.errors import ClientError, InvalidArgument, RemoteRefused, RequestTimeout, SendFailed
from orbitmq.model.message import ReplyTo
from orbitmq.wire.headers import CheckTransactionState, EndTransaction, HeartbeatRequest, SendMessageV2
from orbitmq.wire.messages.properties import parse_properties
from orbitmq.wire.messages.record import parse_record
from waiting import until


def producer(cluster, **settings):
    return TransactionProducer("makers", cluster.name_servers, **settings)


def told(broker, kind=EndTransaction):
    return [request for request in broker.requests if type(request) is kind]


async def test_a_half_message_is_sent_by_a_member_that_the_broker_knows_and_its_end_follows(cluster):
    cluster.topic("orders", count=1)
    async with producer(cluster) as sender:
        async with sender.transaction(Message("orders", b"x", properties={"own": "1"}), key="k") as transaction:
            assert told(cluster.a) == []
        (sent,) = told(cluster.a, SendMessageV2)
        (end,) = told(cluster.a)
    properties = parse_properties(sent.properties)
    assert sent.sys_flag == 4
    assert (properties["TRAN_MSG"], properties["PGROUP"], properties["own"]) == ("true", "makers", "1")
    kinds = [type(request) for request in cluster.a.requests]
    assert kinds.index(HeartbeatRequest) < kinds.index(SendMessageV2)
    assert (end.commit_or_rollback, end.producer_group, end.topic) == (8, "makers", "orders")
    assert end.transaction_id == end.message_id == transaction.sent.message_id == properties["UNIQ_KEY"]


@pytest.mark.parametrize(
    ("outcome", "value"),
    [(Decision.COMMIT, 8), (Decision.ROLLBACK, 12), (Decision.UNKNOWN, 0), (RuntimeError("no"), 0)],
)
async def test_the_outcome_of_execute_ends_the_transaction(cluster, outcome, value):
    cluster.topic("orders", count=1)

    def execute(message):
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def execute_later(message):
        return execute(message)

    async with producer(cluster) as sender:
        results = [await sender.send_in_transaction(Message("orders", b"x"), run) for run in (execute, execute_later)]
        await until(lambda: len(told(cluster.a)) == 2)
    assert [end.commit_or_rollback for end in told(cluster.a)] == [value] * 2
    assert [(result.decision, result.sent.queue_offset) for result in results] == [
        (Decision(value), 0),
        (Decision(value), 1),
    ]


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (Message("orders", b"x", delay_level=3), "delay_level"),
        (Message("orders", b"x", delay_ms=3), "delay_ms"),
        (Message("orders", b"x", deliver_at=datetime(2026, 1, 1, tzinfo=UTC)), "deliver_at"),
        (Message("orders", b"x", properties={"TIMER_DELAY_SEC": "3"}), r"properties\[TIMER_DELAY_SEC\]"),
        (Message("orders", b"x", priority=0), "priority"),
        (Message("orders", b"x", in_reply_to=ReplyTo("c", "d", None, "a")), "message"),
        (Message("orders", b"x", properties={"TRAN_MSG": "true"}), "properties"),
    ],
)
async def test_what_cannot_be_in_a_transaction_is_not_sent(cluster, message, field):
    cluster.topic("orders", count=1)
    async with producer(cluster) as sender:
        with pytest.raises(InvalidArgument, match=field):
            async with sender.transaction(message):
                raise AssertionError
    assert told(cluster.a, SendMessageV2) == []


async def test_a_closed_producer_begins_no_transaction(cluster):
    sender = producer(cluster)
    with pytest.raises(ClientError, match="not open"):
        async with sender.transaction(Message("orders", b"x")):
            raise AssertionError


async def test_a_half_message_that_the_disk_may_lose_is_rolled_back(cluster, monkeypatch):
    cluster.topic("orders", count=1)
    async with producer(cluster) as sender:
        send = sender._sender.send

        async def late(*arguments):
            (sent,) = await send(*arguments)
            return [sent._replace(status=SendStatus.FLUSH_DISK_TIMEOUT)]

        monkeypatch.setattr(sender._sender, "send", late)
        with pytest.raises(SendFailed, match="FLUSH_DISK_TIMEOUT"):
            async with sender.transaction(Message("orders", b"x")):
                raise AssertionError
    assert [end.commit_or_rollback for end in told(cluster.a)] == [12]


async def test_a_refused_end_is_told_with_or_without_a_check(cluster):
    cluster.topic("orders", count=1)
    for check in (None, lambda message: Decision.COMMIT):
        async with producer(cluster, check=check) as sender:
            cluster.a.refusals[EndTransaction] = [1]
            with pytest.raises(RemoteRefused, match="as the test wants"):
                async with sender.transaction(Message("orders", b"x")):
                    pass


@pytest.mark.parametrize("code", [2, 14, 10])
async def test_a_broker_that_cannot_end_it_now_will_ask(cluster, code, caplog):
    cluster.topic("orders", count=1)
    async with producer(cluster, check=lambda message: Decision.COMMIT) as sender:
        cluster.a.refusals[EndTransaction] = [code]
        async with sender.transaction(Message("orders", b"x")):
            pass
    assert "will ask again" in caplog.text
    async with producer(cluster) as sender:
        cluster.a.refusals[EndTransaction] = [code]
        with pytest.raises(RemoteRefused):
            async with sender.transaction(Message("orders", b"x")):
                pass


async def test_an_end_that_is_not_confirmed_is_an_error_where_no_broker_can_be_asked(cluster, caplog, monkeypatch):
    cluster.topic("orders", count=1)
    cluster.a.silent.add(EndTransaction)
    monkeypatch.setattr("orbitmq.client.session.session.ClientSession.call", _impatient)
    async with producer(cluster) as sender:
        with pytest.raises(RequestTimeout):
            async with sender.transaction(Message("orders", b"x")):
                pass
    async with producer(cluster, check=lambda message: Decision.COMMIT) as sender:
        async with sender.transaction(Message("orders", b"x")):
            pass
    assert "COMMIT is not confirmed, its broker will ask" in caplog.text


async def _impatient(self, broker_name, header, body=b"", *, timeout_ms=20, **others):
    address = self.routes.address(broker_name)
    return await self.pool.request(address, header, body, timeout_ms=timeout_ms)


@pytest.mark.parametrize("topics", [[], ["orders"]])
async def test_a_producer_that_has_sent_nothing_can_be_asked_by_the_brokers_of_its_topics(cluster, topics):
    cluster.topic(topics[0] if topics else "TBW102")
    async with producer(cluster, topics=topics, check=lambda message: Decision.ROLLBACK):
        await until(lambda: cluster.a.heartbeats)
        (heartbeat,) = cluster.a.heartbeats
        assert heartbeat.producer_groups == ("makers",)
        cluster.topic("orders", count=1)
        cluster.a.append("orders", 0, b"x", {"PGROUP": "makers", "UNIQ_KEY": "K"})
        _, record, _ = cluster.a.queues["orders", 0][0]
        assert parse_record(record)
        question = CheckTransactionState(tran_state_table_offset=7, commit_log_offset=9)
        cluster.a.clients[heartbeat.client_id].send_oneway(question, record)
        await until(lambda: told(cluster.a))
    (answer,) = told(cluster.a)
    assert (answer.commit_or_rollback, answer.from_transaction_check, answer.tran_state_table_offset) == (12, True, 7)


async def test_unknown_topics_stop_no_producer(cluster):
    async with producer(cluster) as sender:
        await until(lambda: "TBW102" in cluster.name_server.asked)
        await asyncio.sleep(0)
        assert sender._session.routes.is_watched("TBW102")
