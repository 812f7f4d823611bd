import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random
from typing import NamedTuple

import pytest

from orbitmq.client.routing.routes import Routes
from orbitmq.client.send.attempts import FaultTolerance
from orbitmq.client.send.batch import EncodedBatch, batch_body
from orbitmq.client.send.queue_selector import QueueSelector, Target
from orbitmq.client.send.request import RETRY_CODES, encode_message
from orbitmq.client.send.sender import Sender
from orbitmq.client.session.session import ClientSession
from orbitmq.codes import ResponseCode
from orbitmq.errors import ConnectionFailed, RemoteRefused, RequestTimeout, RouteNotFound, SendFailed
from orbitmq.model.group import Heartbeat
from orbitmq.model.message import Message
from orbitmq.model.route import BrokerData, MessageQueue, TopicRoute
from orbitmq.net.pool import ConnectionPool
from orbitmq.wire.headers import SendBatch, SendMessageV2
from unit.client.support import noted_pauses, open_session
from waiting import until

ORDERS = Target("orders")


class Parts(NamedTuple):
    """A sender with its neighbours."""

    sender: Sender
    selector: QueueSelector
    routes: Routes
    pool: ConnectionPool


@asynccontextmanager
async def sender_of(cluster, *, faults=None, describe=None, **settings):
    async with open_session(cluster, describe=describe) as session:
        selector = QueueSelector(session.routes, faults, random=Random(1), queue_count=3)
        fixed = {"group": "g", "timeout_ms": 20_000, "attempt_timeout_ms": None, "retries": 2}
        sender = Sender(session, selector, **{**fixed, **settings})
        yield Parts(sender, selector, session.routes, session.pool)


def encoded(*bodies):
    return [encode_message(Message("orders", body), "ID", compress_over=100) for body in bodies]


def sends(broker):
    return [request for request in broker.requests if isinstance(request, SendMessageV2 | SendBatch)]


def now_ms():
    return int(asyncio.get_running_loop().time() * 1000)


def pause_for(monkeypatch, pause_ms):
    """Let every pause between two attempts be so long."""
    monkeypatch.setattr("orbitmq.client.send.attempts.FIRST_PAUSE_MS", pause_ms)
    monkeypatch.setattr("orbitmq.client.send.attempts.PAUSE_MAX_MS", pause_ms)


async def test_one_message_and_several_travel_in_their_own_kind_of_request(cluster):
    cluster.topic("orders", count=1)
    async with sender_of(cluster) as parts:
        (one,) = await parts.sender.send(encoded(b"1"), ORDERS)
        two, three = await parts.sender.send(encoded(b"2", b"3"), ORDERS)
    assert [result.queue_offset for result in (one, two, three)] == [0, 1, 2]
    assert cluster.a.bodies("orders") == [b"1", b"2", b"3"]
    single, batch = sends(cluster.a)
    assert (type(single), type(batch)) == (SendMessageV2, SendBatch)
    for header in (single, batch):
        assert (header.producer_group, header.default_topic_queue_nums) == ("g", 3)


async def test_messages_that_were_encoded_together_are_one_request(cluster):
    cluster.topic("orders", count=1)
    told = []
    batch = EncodedBatch("orders", batch_body(encoded(b"1", b"2")), 2, "ID")
    async with sender_of(cluster, on_sent=lambda *about: told.append(about)) as parts:
        (sent,) = await parts.sender.send(batch, ORDERS)
    assert (sent.message_id, sent.queue_offset) == ("ID", 0)
    assert cluster.a.bodies("orders") == [b"1", b"2"]
    assert [type(request) for request in sends(cluster.a)] == [SendBatch]
    assert told == []


async def test_even_one_message_that_was_encoded_as_a_batch_travels_as_one(cluster):
    cluster.topic("orders", count=1)
    async with sender_of(cluster) as parts:
        await parts.sender.send(EncodedBatch("orders", batch_body(encoded(b"1")), 1, "ID"), ORDERS)
    assert cluster.a.bodies("orders") == [b"1"]


async def test_a_send_goes_first_to_the_queue_that_was_chosen_before(cluster):
    cluster.topic("orders", cluster.a, cluster.b, count=2)
    cluster.a.refusals[SendMessageV2] = [ResponseCode.SYSTEM_BUSY]
    async with sender_of(cluster) as parts:
        first = MessageQueue("orders", "broker-a", 1)
        await parts.selector.queues("orders")
        (sent,) = await parts.sender.send(encoded(b"x"), ORDERS, first=first)
    assert [header.queue_id for header in sends(cluster.a)] == [1]
    assert sent.queue.broker_name == "broker-b"


@pytest.mark.parametrize("code", [ResponseCode.MESSAGE_ILLEGAL, ResponseCode.NO_PERMISSION])
async def test_a_refusal_is_tried_elsewhere_when_another_broker_may_not_share_it(cluster, code):
    cluster.topic("orders", cluster.a, cluster.b, count=1)
    for broker in (cluster.a, cluster.b):
        broker.refusals[SendMessageV2] = [code] * 9
    expected = SendFailed if code in RETRY_CODES else RemoteRefused
    async with sender_of(cluster, retries=1) as parts:
        with pytest.raises(
            expected, match=f"broker broker-. at 127.0.0.1:.*{int(code)}|{int(code)}.*as the test wants"
        ):
            await parts.sender.send(encoded(b"x"), ORDERS)
    assert [len(sends(broker)) for broker in (cluster.a, cluster.b)].count(1) == (2 if code in RETRY_CODES else 1)


async def test_the_pause_before_the_same_broker_is_tried_again_grows_up_to_a_second(cluster, monkeypatch):
    cluster.topic("orders", count=1)
    cluster.a.refusals[SendMessageV2] = [ResponseCode.SYSTEM_ERROR] * 9
    async with sender_of(cluster, retries=4) as parts:
        await parts.selector.queues("orders")
        with noted_pauses(monkeypatch) as pauses, pytest.raises(SendFailed):
            await parts.sender.send(encoded(b"x"), ORDERS)
    assert pauses == [200, 800, 1_000, 1_000]


async def test_another_broker_is_tried_without_a_pause(cluster, monkeypatch):
    cluster.topic("orders", cluster.a, cluster.b, count=1)
    for broker in (cluster.a, cluster.b):
        broker.refusals[SendMessageV2] = [ResponseCode.SYSTEM_ERROR]
    async with sender_of(cluster, retries=1) as parts:
        with noted_pauses(monkeypatch) as pauses, pytest.raises(SendFailed):
            await parts.sender.send(encoded(b"x"), ORDERS)
    assert pauses == []


async def test_a_broker_that_is_away_is_tried_until_the_time_is_over(cluster, monkeypatch):
    monkeypatch.setattr("orbitmq.client.send.attempts.FIRST_PAUSE_MS", 1)
    cluster.topic("orders", count=1)
    async with sender_of(cluster, retries=1) as parts:
        await parts.selector.queues("orders")
        await cluster.a.stop()
        sending = asyncio.create_task(parts.sender.send(encoded(b"x"), ORDERS))
        await until(lambda: parts.sender._pauses)
        for _ in range(50):  # several attempts, more than are allowed where brokers answer
            await asyncio.sleep(0.001)
        assert not sending.done()
        await cluster.a.start()
        ((result,),) = await asyncio.gather(sending)
    assert result.queue_offset == 0


async def test_connections_that_break_after_the_request_are_tried_as_often_as_is_allowed(cluster, monkeypatch):
    monkeypatch.setattr("orbitmq.client.send.attempts.FIRST_PAUSE_MS", 0)
    cluster.topic("orders", count=1)
    cluster.a.silent.add(SendMessageV2)  # it may have stored each of them

    async with sender_of(cluster, retries=2, timeout_ms=2_000) as parts:
        await parts.selector.queues("orders")
        sending = asyncio.create_task(parts.sender.send(encoded(b"x"), ORDERS))
        for attempt in range(1, 4):
            while len(sends(cluster.a)) < attempt:
                await asyncio.sleep(0)
            parts.pool.close_address(cluster.a.address)
        with pytest.raises(SendFailed, match="3 attempts"):
            await sending
    assert len(sends(cluster.a)) == 3


@asynccontextmanager
async def cutting(address):
    """Take connections at an address, as proxies do whose broker is away, and cut them; yield what came before the cut."""
    seen = []

    async def cut(reader, writer):
        seen.append(await reader.read(65_536))
        writer.close()

    host, _, port = address.rpartition(":")
    async with await asyncio.start_server(cut, host, int(port)):
        yield seen


async def test_a_client_that_cuts_connections_gets_the_message_once_and_is_greeted_until_the_broker_is_back(
    cluster, monkeypatch
):
    pause_for(monkeypatch, 1)
    cluster.topic("orders", count=1)
    async with sender_of(cluster, retries=1, describe=lambda client_id: Heartbeat(client_id=client_id)) as parts:
        await parts.selector.queues("orders")
        await cluster.a.stop()
        async with cutting(cluster.a.address) as seen:
            sending = asyncio.create_task(parts.sender.send(encoded(b"the-message"), ORDERS))
            await until(lambda: len(seen) > 5 or sending.done())
            assert not sending.done()
        await cluster.a.start()
        ((result,),) = await asyncio.gather(sending)
    assert sum(b"the-message" in data for data in seen) == 1
    assert cluster.a.bodies("orders") == [b"the-message"]
    assert result.queue_offset == 0


async def test_without_retries_a_broker_that_is_away_fails_the_send_immediately(cluster):
    cluster.topic("orders", count=1)
    async with sender_of(cluster, retries=0) as parts:
        await parts.selector.queues("orders")
        await cluster.a.stop()
        with pytest.raises(SendFailed, match="1 attempt "):
            await parts.sender.send(encoded(b"x"), ORDERS)


@pytest.mark.parametrize("news", ["answer", "route", "connection"])
async def test_a_pause_ends_when_there_is_news_of_the_broker(cluster, monkeypatch, news):
    pause_for(monkeypatch, 3_600_000)
    cluster.topic("orders", count=1)
    cluster.a.refusals[SendMessageV2] = [ResponseCode.SYSTEM_BUSY]
    async with sender_of(cluster, timeout_ms=3_600_000) as parts:
        sending = asyncio.create_task(parts.sender.send(encoded(b"1"), ORDERS))
        await until(lambda: parts.sender._pauses)
        if news == "answer":
            await parts.sender.send(encoded(b"2"), ORDERS)
        elif news == "connection":
            parts.pool.close_address(cluster.a.address)
            await parts.pool.connect(cluster.a.address)
        else:
            cluster.topic("orders", count=2)
            await parts.routes.refresh("orders")
        await sending
        assert not parts.sender._pauses.get("broker-a")


async def test_a_topic_whose_brokers_have_gone_is_waited_for_until_its_route_is_back(cluster, monkeypatch):
    pause_for(monkeypatch, 3_600_000)
    cluster.topic("orders", count=1)
    cluster.a.refusals[SendMessageV2] = [ResponseCode.SERVICE_NOT_AVAILABLE] * 2
    async with sender_of(cluster, timeout_ms=3_600_000) as parts:
        sending = asyncio.create_task(parts.sender.send(encoded(b"1"), ORDERS))
        await until(lambda: parts.sender._pauses)
        cluster.topic("orders", count=0)
        await parts.routes.refresh("orders")
        await until(lambda: parts.sender._pauses.get(""))
        assert not sending.done()
        cluster.topic("orders", count=1)
        await parts.routes.refresh("orders")
        ((result,),) = await asyncio.gather(sending)
    assert result.queue_offset == 0


async def test_a_topic_whose_broker_has_no_master_yet_is_waited_for(cluster):
    cluster.topic("orders", count=1)
    whole = cluster.routes["orders"]
    slaves = tuple(replace(broker, addresses={1: "127.0.0.1:1"}) for broker in whole.brokers)
    cluster.routes["orders"] = replace(whole, brokers=slaves)
    async with sender_of(cluster, timeout_ms=60_000) as parts:
        sending = asyncio.create_task(parts.sender.send(encoded(b"1"), ORDERS))
        await until(lambda: parts.sender._pauses)
        cluster.routes["orders"] = whole
        ((result,),) = await asyncio.gather(sending)
    assert result.queue_offset == 0


async def test_a_connection_to_another_broker_and_its_answer_are_no_news(cluster, monkeypatch):
    pause_for(monkeypatch, 3_600_000)
    cluster.topic("orders", cluster.a, cluster.b, count=1)
    cluster.a.refusals[SendMessageV2] = [ResponseCode.SYSTEM_BUSY]
    at_a, at_b = (Target("orders", MessageQueue("orders", name, 0)) for name in ("broker-a", "broker-b"))
    async with sender_of(cluster, timeout_ms=3_600_000) as parts:
        sending = asyncio.create_task(parts.sender.send(encoded(b"1"), at_a))
        await until(lambda: parts.sender._pauses)
        await parts.pool.connect(cluster.b.address)
        assert parts.sender._pauses["broker-a"]
        await parts.sender.send(encoded(b"2"), at_b)
        assert parts.sender._pauses["broker-a"]
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        assert not parts.sender._pauses["broker-a"]


async def test_sends_beyond_the_limit_wait_for_their_turn_and_their_time_begins_with_it(cluster):
    cluster.topic("orders", count=1)
    cluster.a.silent.add(SendMessageV2)
    under_way = set()
    # Without a second attempt: one that waits for it, be it for the last millisecond of its time, holds no place.
    async with sender_of(cluster, sends_max=2, timeout_ms=300, retries=0) as parts:
        await parts.selector.queues("orders")
        sending = [asyncio.create_task(parts.sender.send(encoded(b"x"), ORDERS)) for _ in range(6)]

        def is_over():
            under_way.add(len(sends(cluster.a)) - sum(task.done() for task in sending))
            return all(task.done() for task in sending)

        await until(is_over)
        errors = await asyncio.gather(*sending, return_exceptions=True)
        await until(lambda: len(sends(cluster.a)) == 6)
    assert max(under_way) == 2
    for error in errors:
        assert isinstance(error, SendFailed)
        assert len(error.causes) == 1


async def test_a_send_that_has_begun_does_not_wait_behind_those_that_have_not(cluster, monkeypatch):
    monkeypatch.setattr("orbitmq.client.send.attempts.FIRST_PAUSE_MS", 0)
    cluster.topic("orders", count=1)
    cluster.a.refusals[SendMessageV2] = [ResponseCode.SYSTEM_ERROR]
    async with sender_of(cluster, sends_max=1) as parts:
        await parts.selector.queues("orders")
        order = []

        async def send(number):
            await parts.sender.send(encoded(b"%d" % number), ORDERS)
            order.append(number)

        await asyncio.gather(*map(send, range(20)))
    assert order.index(0) <= 1  # one took the place while the first one paused


async def test_a_send_that_has_begun_waits_for_a_place_no_longer_than_its_time(cluster, monkeypatch):
    monkeypatch.setattr("orbitmq.client.send.attempts.FIRST_PAUSE_MS", 0)
    cluster.topic("orders", cluster.a, cluster.b, count=1)
    cluster.a.refusals[SendMessageV2] = [ResponseCode.SYSTEM_ERROR]
    cluster.b.silent.add(SendMessageV2)
    at_a, at_b = (Target("orders", MessageQueue("orders", name, 0)) for name in ("broker-a", "broker-b"))
    async with sender_of(cluster, sends_max=1, timeout_ms=3_600_000) as parts:
        await parts.selector.queues("orders")
        short = asyncio.create_task(parts.sender.send(encoded(b"1"), at_a, 500))
        long = asyncio.create_task(parts.sender.send(encoded(b"2"), at_b))
        with pytest.raises(SendFailed, match="attempt within 500 ms"):
            await short
        assert not long.done()
        long.cancel()
        await asyncio.gather(long, return_exceptions=True)


async def test_a_send_that_pauses_leaves_its_place_to_another(cluster, monkeypatch):
    pause_for(monkeypatch, 3_600_000)
    cluster.topic("orders", cluster.a, cluster.b, count=1)
    cluster.a.refusals[SendMessageV2] = [ResponseCode.SYSTEM_BUSY]
    at_a, at_b = (Target("orders", MessageQueue("orders", name, 0)) for name in ("broker-a", "broker-b"))
    async with sender_of(cluster, sends_max=1, timeout_ms=3_600_000) as parts:
        pausing = asyncio.create_task(parts.sender.send(encoded(b"1"), at_a))
        await until(lambda: parts.sender._pauses)
        await parts.sender.send(encoded(b"2"), at_b)
        await parts.sender.send(encoded(b"3"), at_a)
        await pausing


async def test_without_time_nothing_is_tried(cluster):
    cluster.topic("orders", count=1)
    async with sender_of(cluster, timeout_ms=0) as parts:
        await parts.selector.queues("orders")
        with pytest.raises(SendFailed, match="0 attempts within 0 ms: the time was over before the first one"):
            await parts.sender.send(encoded(b"x"), ORDERS)
    assert sends(cluster.a) == []


@pytest.mark.parametrize(
    ("attempt_timeout_ms", "least", "most"), [(30, 30, 30), (None, 5_000, 20_000), (90_000, 5_000, 20_000)]
)
async def test_an_attempt_may_take_its_own_time_or_what_is_left(cluster, monkeypatch, attempt_timeout_ms, least, most):
    cluster.topic("orders", count=1)
    allowed = []

    async def call(session, broker_name, header, body, *, timeout_ms, only_this):
        allowed.append(timeout_ms)
        raise RequestTimeout("no answer")

    async with sender_of(cluster, attempt_timeout_ms=attempt_timeout_ms, retries=0) as parts:
        monkeypatch.setattr(ClientSession, "call", call)
        with pytest.raises(SendFailed, match="within 20000 ms"):
            await parts.sender.send(encoded(b"x"), ORDERS)
    assert [least <= timeout_ms <= most for timeout_ms in allowed] == [True]


async def test_an_attempt_has_half_of_the_time_while_another_broker_can_be_tried(cluster, monkeypatch):
    cluster.topic("orders", cluster.a, cluster.b, count=1)
    allowed = []

    async def call(session, broker_name, header, body, *, timeout_ms, only_this):
        allowed.append((broker_name, timeout_ms))
        raise RequestTimeout("no answer")

    async with sender_of(cluster, retries=1) as parts:
        monkeypatch.setattr(ClientSession, "call", call)
        with pytest.raises(SendFailed):
            await parts.sender.send(encoded(b"x"), ORDERS)
    (one, first_ms), (other, second_ms) = allowed
    assert {one, other} == {"broker-a", "broker-b"}
    assert (first_ms, second_ms > 15_000) == (
        10_000,
        True,
    )  # `call` takes no time: the last attempt may have all that is left


@pytest.mark.parametrize(("attempt_timeout_ms", "avoided"), [(None, {"broker-a"}), (15_000, set())])
async def test_an_attempt_that_the_end_of_the_send_cuts_short_says_nothing_about_its_broker(
    cluster, monkeypatch, attempt_timeout_ms, avoided
):
    """One that had its full time does: half of the send's, where nothing else is set."""
    cluster.topic("orders", count=1)
    faults = FaultTolerance()

    async def call(session, broker_name, header, body, *, timeout_ms, only_this):
        raise RequestTimeout("no answer")

    async with sender_of(cluster, faults=faults, attempt_timeout_ms=attempt_timeout_ms, timeout_ms=10_000) as parts:
        monkeypatch.setattr(ClientSession, "call", call)
        with pytest.raises(SendFailed):
            await parts.sender.send(encoded(b"x"), ORDERS)
        assert faults.avoided(now_ms()) == avoided


async def test_a_route_that_does_not_come_in_time_is_an_error_that_names_who_was_asked(cluster):
    cluster.name_server.is_silent = True
    async with sender_of(cluster) as parts:
        with pytest.raises(SendFailed, match=f"topic orders was not sent: .*{cluster.name_server.address}"):
            await parts.sender.send(encoded(b"x"), ORDERS, 30)


async def test_a_broker_that_refuses_sends_is_asked_once_and_another_one_after_it(cluster):
    cluster.topic("orders", cluster.a, cluster.b)
    for broker in (cluster.a, cluster.b):
        broker.refusals[SendMessageV2] = [ResponseCode.NO_PERMISSION] * 3
    async with sender_of(cluster, retries=5) as parts:
        with pytest.raises(SendFailed, match=r"2 attempts within .*as the test wants$") as raised:
            await parts.sender.send(encoded(b"x"), ORDERS)
    assert [getattr(cause, "code", None) for cause in raised.value.causes] == [ResponseCode.NO_PERMISSION] * 2
    assert [len(broker.refusals[SendMessageV2]) for broker in (cluster.a, cluster.b)] == [2, 2]


async def test_causes_that_are_alike_are_told_once_with_their_attempts(cluster, monkeypatch):
    monkeypatch.setattr("orbitmq.client.send.attempts.FIRST_PAUSE_MS", 0)
    cluster.topic("orders", count=1)
    busy, down = ResponseCode.SYSTEM_ERROR, ResponseCode.TOPIC_NOT_EXIST
    cluster.a.refusals[SendMessageV2] = [busy, down, busy]
    cluster.a.refusals[SendBatch] = [busy] * 3
    async with sender_of(cluster) as parts:
        with pytest.raises(
            SendFailed, match=r"^a message to topic orders got .*: 1, 3: .*; 2: .*sending it again may double"
        ):
            await parts.sender.send(encoded(b"x"), ORDERS)
        with pytest.raises(SendFailed, match=r"^a batch of 2 messages to topic orders got .*: 1, 2, 3: "):
            await parts.sender.send(encoded(b"x", b"y"), ORDERS)


async def test_failures_and_latencies_are_recorded(cluster, monkeypatch):
    cluster.topic("orders", cluster.a, cluster.b, count=1)
    faults = FaultTolerance()
    cluster.a.refusals[SendMessageV2] = [ResponseCode.SYSTEM_BUSY]
    to_a = MessageQueue("orders", "broker-a", 0)
    async with sender_of(cluster, faults=faults) as parts:
        await parts.selector.queues("orders")
        await parts.sender.send(encoded(b"x"), ORDERS, first=to_a)
        assert faults.avoided(now_ms()) == {"broker-a"}
        assert faults.avoided(now_ms() + 10_001) == frozenset()
        await parts.sender.send(encoded(b"x"), ORDERS, first=to_a)
        assert faults.avoided(now_ms()) == frozenset()


async def test_a_slow_answer_is_recorded_with_its_time(cluster, monkeypatch):
    monkeypatch.setattr("orbitmq.client.send.attempts.LATENCY_MS", (1, 2, 20, 1_800, 3_000, 5_000, 15_000))
    cluster.topic("orders", count=1)
    cluster.a.delays[SendMessageV2] = 0.03
    faults = FaultTolerance()
    async with sender_of(cluster, faults=faults) as parts:
        await parts.sender.send(encoded(b"x"), ORDERS)
        assert faults.avoided(now_ms()) == {"broker-a"}
        assert faults.avoided(now_ms() + 2_001) == frozenset()


async def test_after_a_failure_the_route_is_asked_for_again(cluster):
    cluster.topic("orders", cluster.a, cluster.b, count=1)
    cluster.a.refusals[SendMessageV2] = cluster.b.refusals[SendMessageV2] = [ResponseCode.SYSTEM_BUSY]
    async with sender_of(cluster) as parts:
        await parts.selector.queues("orders")
        asked = cluster.name_server.asked.count("orders")
        await parts.sender.send(encoded(b"x"), ORDERS)
        await until(lambda: cluster.name_server.asked.count("orders") > asked)


async def test_a_send_to_a_slave_is_none(cluster):
    cluster.topic("orders", count=1)
    queues = cluster.routes["orders"].queues
    slave = BrokerData(cluster="c", broker_name="broker-a", addresses={1: cluster.a.address})
    target = Target("orders", MessageQueue("orders", "broker-a", 0))
    async with sender_of(cluster) as parts:
        await parts.selector.queues("orders")
        cluster.routes["orders"] = TopicRoute(queues=queues, brokers=(slave,))
        await parts.routes.refresh("orders")
        with pytest.raises(SendFailed) as caught:
            await parts.sender.send(encoded(b"x"), target, 100)
        with pytest.raises(RouteNotFound):
            await parts.sender.send_oneway(encoded(b"x")[0], target)
    assert {type(cause) for cause in caught.value.causes} == {RouteNotFound}


async def test_the_true_route_of_a_topic_that_a_message_created_is_looked_for(cluster):
    cluster.topic("TBW102", count=8)
    async with sender_of(cluster) as parts:
        await parts.sender.send(encoded(b"x"), ORDERS)
        asked = cluster.name_server.asked.count("orders")
        cluster.topic("orders", cluster.a, count=2)
        while len(await parts.selector.queues("orders")) != 2:
            await asyncio.sleep(0)
        assert cluster.name_server.asked.count("orders") == asked + 1


async def test_a_true_route_that_does_not_come_is_given_up(cluster, monkeypatch):
    cluster.topic("TBW102", count=1)
    async with sender_of(cluster) as parts:
        await parts.selector.queues("orders")
        with noted_pauses(monkeypatch) as pauses:
            await parts.sender.send(encoded(b"x"), ORDERS)
            await until(lambda: 1_600 in pauses)
            for _ in range(200):
                await asyncio.sleep(0)
    assert pauses == [50, 100, 200, 400, 800, 1_600]


async def test_a_broker_that_answers_a_send_gets_a_heartbeat_when_it_had_none(cluster):
    cluster.topic("orders", count=1)
    async with sender_of(cluster, describe=lambda client_id: Heartbeat(client_id=client_id)) as parts:
        await parts.selector.queues("orders")
        await until(lambda: cluster.a.heartbeats)
        await cluster.a.stop()
        with pytest.raises(SendFailed):
            await parts.sender.send(encoded(b"x"), ORDERS, 50)
        await cluster.a.start()
        cluster.a.heartbeats.clear()
        await parts.sender.send(encoded(b"x"), ORDERS)
        await until(lambda: cluster.a.heartbeats)


async def test_a_one_way_message_is_sent_and_not_answered(cluster):
    cluster.topic("orders", count=1)
    async with sender_of(cluster) as parts:
        (message,) = encoded(b"x")
        await parts.sender.send_oneway(message, ORDERS)
        await until(lambda: cluster.a.bodies("orders") == [b"x"])
    (header,) = sends(cluster.a)
    assert (header.producer_group, header.default_topic_queue_nums) == ("g", 3)
    assert cluster.a.commands[-1].is_oneway


async def test_a_one_way_message_without_a_connection_is_an_error_that_is_recorded(cluster):
    cluster.topic("orders", count=1)
    faults = FaultTolerance()
    async with sender_of(cluster, faults=faults) as parts:
        await cluster.a.stop()
        with pytest.raises(ConnectionFailed, match=f"broker broker-a at {cluster.a.address}.*brokerIP1"):
            await parts.sender.send_oneway(encoded(b"x")[0], ORDERS)
        assert faults.avoided(now_ms()) == {"broker-a"}


async def test_a_logical_queues_messages_go_to_its_leader_under_its_own_number(cluster):
    cluster.static_topic("orders", cluster.b)
    async with sender_of(cluster) as parts:
        (one,) = await parts.sender.send(encoded(b"1"), ORDERS)
        assert one.queue == MessageQueue("orders", "__syslo__global__", 0)
        await parts.sender.send_oneway(encoded(b"2")[0], ORDERS)
        await until(lambda: len(sends(cluster.b)) == 2)
    assert sends(cluster.a) == []


async def test_a_logical_queue_that_has_moved_is_followed_to_its_new_leader(cluster, monkeypatch):
    cluster.static_topic("orders", cluster.a)
    async with sender_of(cluster) as parts:
        await parts.sender.send(encoded(b"1"), ORDERS)
        cluster.static_topic("orders", cluster.b, epoch=2)
        cluster.a.refusals[SendMessageV2] += [ResponseCode.NOT_LEADER_FOR_QUEUE] * 5
        with noted_pauses(monkeypatch):
            await parts.sender.send(encoded(b"2"), ORDERS)
    assert cluster.b.bodies("orders") == [b"2"]
    assert len(cluster.a.refusals[SendMessageV2]) == 4, "it was asked once"


async def test_a_send_that_waits_for_a_master_that_stands_still_goes_to_the_next_one(cluster, monkeypatch):
    monkeypatch.setattr("orbitmq.client.send.sender._SLOW_MS", 20)
    cluster.topic("orders", count=1)
    cluster.a.silent.add(SendMessageV2)
    async with sender_of(cluster, timeout_ms=60_000) as parts:
        sending = asyncio.create_task(parts.sender.send(encoded(b"1"), ORDERS))
        await until(lambda: sends(cluster.a))
        cluster.fail_over("orders")
        async with asyncio.timeout(20):
            await sending
    assert cluster.b.bodies("orders") == [b"1"]


async def test_a_queue_that_is_gone_by_the_broker_is_replaced_by_one_of_the_new_route(cluster):
    cluster.topic("orders", count=8)
    faults = FaultTolerance()
    async with sender_of(cluster, faults=faults) as parts:
        await parts.sender.send(encoded(b"1"), ORDERS)
        cluster.topic("orders", count=1)
        for broker in (cluster.a, cluster.b):
            broker.refusals[SendMessageV2] += [ResponseCode.INVALID_PARAMETER]
        (sent,) = await parts.sender.send(encoded(b"2"), ORDERS)
        assert sent.queue.queue_id == 0
        assert not faults.avoided(now_ms()), "a broker that knows better is well"
        for broker in (cluster.a, cluster.b):
            broker.refusals[SendMessageV2] += [ResponseCode.INVALID_PARAMETER]
        with pytest.raises(RemoteRefused, match="code 29"):
            await parts.sender.send(encoded(b"3"), Target("orders", queue=MessageQueue("orders", "broker-a", 7)))
