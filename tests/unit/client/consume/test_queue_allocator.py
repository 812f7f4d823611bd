import asyncio
import logging

from orbitmq.client.consume import queue_allocator
from orbitmq.client.consume.allocation import allocate_average
from orbitmq.client.consume.queue_allocator import QueueAllocator
from orbitmq.codes import ResponseCode
from orbitmq.errors import RequestTimeout
from orbitmq.model.group import MessageModel
from orbitmq.model.route import MessageQueue, TopicRoute
from orbitmq.wire.headers import GetConsumerList
from unit.client.support import describe, open_session


def allocator(session, model=MessageModel.CLUSTERING, strategy=allocate_average):
    return QueueAllocator(session, "g", model, strategy)


def queues(topic, broker, *numbers):
    return [MessageQueue(topic, broker, number) for number in numbers]


async def test_queues_are_divided_among_the_members_that_a_broker_names(cluster):
    cluster.topic("orders", cluster.a, count=4)
    async with open_session(cluster, describe=describe) as session:
        cluster.a.members["g"] = {session.id: None, "zz@1": None}
        assert await allocator(session).allocate(["orders"]) == {"orders": queues("orders", "broker-a", 0, 1)}
        cluster.a.members["g"] = {session.id: None, "0@1": None}
        assert await allocator(session).allocate(["orders"]) == {"orders": queues("orders", "broker-a", 2, 3)}


async def test_each_topic_has_an_answer_of_its_own(cluster):
    cluster.topic("orders", count=1)
    cluster.topic("bills", cluster.b, count=1)
    async with open_session(cluster, describe=describe) as session:
        for broker in (cluster.a, cluster.b):
            broker.members["g"] = {session.id: None}
        assert await allocator(session).allocate(["orders", "bills", "nowhere"]) == {
            "orders": queues("orders", "broker-a", 0),
            "bills": queues("bills", "broker-b", 0),
            "nowhere": None,
        }


async def test_a_broadcasting_consumer_reads_everything_and_asks_for_no_members(cluster):
    cluster.topic("orders", count=3)
    async with open_session(cluster) as session:
        found = await allocator(session, MessageModel.BROADCASTING).allocate(["orders"])
    assert found == {"orders": queues("orders", "broker-a", 0, 1, 2)}
    assert cluster.a.requests == []


async def test_the_strategy_is_the_callers(cluster):
    cluster.topic("orders", count=3)

    def last(found, members, member):
        assert member in members
        return found[-1:]

    async with open_session(cluster, describe=describe) as session:
        cluster.a.members["g"] = {session.id: None}
        assert await allocator(session, strategy=last).allocate(["orders"]) == {
            "orders": queues("orders", "broker-a", 2)
        }


async def test_a_broker_that_does_not_know_this_member_gets_a_heartbeat_and_is_asked_again(cluster):
    cluster.topic("orders", count=1)
    async with open_session(cluster, "orders", describe=describe) as session:
        cluster.a.members["g"] = {"other@1": None}
        found = await allocator(session).allocate(["orders"])
        assert session.id in cluster.a.members["g"]
        assert found["orders"] is not None


async def test_a_member_that_stays_unknown_is_told_nothing_and_nothing_is_to_change(cluster):
    cluster.topic("orders", count=1)
    async with open_session(cluster, "orders") as session:  # without heartbeats
        assert await allocator(session).allocate(["orders"]) == {"orders": None}
        cluster.a.members["g"] = {"other@1": None}
        assert await allocator(session).allocate(["orders"]) == {"orders": None}


async def test_members_are_those_that_any_broker_of_the_topic_knows(cluster):
    """A broker that was just started knows some of them only: its list alone would give queues two readers."""
    cluster.topic("orders", cluster.a, cluster.b, count=2)
    async with open_session(cluster, describe=describe) as session:
        cluster.a.members["g"] = {session.id: None}
        cluster.b.members["g"] = {session.id: None, "zz@1": None}
        assert await allocator(session).allocate(["orders"]) == {"orders": queues("orders", "broker-a", 0, 1)}


async def test_members_are_asked_for_once_a_round_however_many_topics_there_are(cluster):
    topics = [f"orders-{number}" for number in range(20)]
    for topic in topics:
        cluster.topic(topic, cluster.a, cluster.b, count=1)
    async with open_session(cluster, describe=describe) as session:
        for broker in (cluster.a, cluster.b):
            broker.members["g"] = {session.id: None}
        assert None not in (await allocator(session).allocate(topics)).values()
        asked = [[r for r in broker.requests if isinstance(r, GetConsumerList)] for broker in (cluster.a, cluster.b)]
    assert [len(requests) for requests in asked] == [1, 1]


async def test_a_broker_that_stands_still_keeps_no_topic_without_queues_and_is_warned_of_once(
    cluster, caplog, monkeypatch
):
    """Of 50 topics each waited for the whole time-out of the same broker."""
    monkeypatch.setattr(queue_allocator, "OTHERS_MS", 10)
    topics = [f"orders-{number}" for number in range(20)]
    for topic in topics:
        cluster.topic(topic, cluster.a, cluster.b, count=1)
    cluster.a.silent.add(GetConsumerList)
    async with open_session(cluster, describe=describe) as session:
        cluster.b.members["g"] = {session.id: None}
        asker = allocator(session)
        async with asyncio.timeout(2.5):  # a request's own time-out is 3 s
            for _ in range(3):
                assert None not in (await asker.allocate(topics)).values()
        session.note_failure("broker-a", RequestTimeout("a pull has no answer"))
    (warning,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert "not known by 1 of 2 brokers now: broker broker-a has not answered" in warning.getMessage()


async def test_when_no_broker_answers_nothing_is_to_change_and_the_last_error_is_told(cluster, caplog):
    cluster.topic("orders", cluster.a, cluster.b, count=1)
    async with open_session(cluster, "orders") as session:
        await cluster.a.stop()
        await cluster.b.stop()
        assert await allocator(session).allocate(["orders"]) == {"orders": None}
    (warning,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert cluster.b.address in warning.getMessage()


async def test_a_route_without_brokers_cannot_be_allocated(cluster, caplog):
    cluster.topic("orders", count=1)
    cluster.routes["orders"] = TopicRoute(queues=cluster.routes["orders"].queues)
    async with open_session(cluster) as session:
        assert await allocator(session).allocate(["orders"]) == {"orders": None}
    assert "group g: the route names no broker" in caplog.messages


async def test_a_refusal_is_warned_of_once_until_the_topic_is_allocated_again(cluster, caplog):
    cluster.topic("orders", count=1)
    async with open_session(cluster, describe=describe) as session:
        cluster.a.members["g"] = {session.id: None}
        found = allocator(session)
        for _ in range(2):
            cluster.a.refusals[GetConsumerList] = [ResponseCode.NO_PERMISSION] * 2
            assert await found.allocate(["orders"]) == {"orders": None}
            assert await found.allocate(["orders"]) == {"orders": None}
            assert (await found.allocate(["orders"]))["orders"] is not None
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 2
    assert all("group g: " in record.getMessage() for record in warnings)


async def test_a_retry_topic_that_does_not_exist_yet_is_in_order(cluster, caplog):
    async with open_session(cluster) as session:
        assert await allocator(session).allocate(["%RETRY%g", "nowhere"]) == {"%RETRY%g": None, "nowhere": None}
    (warning,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert "nowhere" in warning.getMessage()


async def test_a_retry_topic_that_cannot_be_asked_for_is_warned_of(cluster, caplog):
    async with open_session(cluster) as session:
        await cluster.name_server.stop()
        await allocator(session).allocate(["%RETRY%g"])
    assert len([record for record in caplog.records if record.levelno == logging.WARNING]) == 1


async def test_the_queues_of_a_broker_that_restarts_stay_shared_out_and_those_of_one_that_is_gone_do_not(
    cluster, monkeypatch
):
    cluster.topic("orders", cluster.a, cluster.b, count=2)
    async with open_session(cluster, "orders", describe=describe) as session:
        members = {session.id: None, "zz@1": None}
        cluster.a.members["g"] = cluster.b.members["g"] = members
        found = allocator(session)
        mine = {"orders": queues("orders", "broker-a", 0, 1)}
        assert await found.allocate(["orders"]) == mine
        assert found.next_round_s is None
        cluster.topic("orders", cluster.b, count=2)
        await session.routes.refresh("orders")
        assert await found.allocate(["orders"]) == mine
        assert found.next_round_s == queue_allocator.POLL_S
        monkeypatch.setattr(queue_allocator, "DEPARTED_S", 0)
        monkeypatch.setattr(queue_allocator, "UNSETTLED_S", 0)
        assert await found.allocate(["orders"]) == {"orders": queues("orders", "broker-b", 0)}
        assert found.next_round_s == queue_allocator.POLL_S, "its return is looked for"
        monkeypatch.setattr(queue_allocator, "RETURNED_S", 0)
        await found.allocate(["orders"])
        assert found.next_round_s is None


async def test_a_broker_that_is_back_is_found_by_the_next_round(cluster, monkeypatch):
    monkeypatch.setattr(queue_allocator, "UNSETTLED_S", 0)
    for topic in ("bills", "orders"):
        cluster.topic(topic, cluster.a, cluster.b, count=1)
    async with open_session(cluster, "orders", "bills", describe=describe) as session:
        cluster.a.members["g"] = cluster.b.members["g"] = {session.id: None}
        found = allocator(session)
        whole = await found.allocate(["bills", "orders"])
        for topic in ("bills", "orders"):
            cluster.topic(topic, cluster.b, count=1)
            await session.routes.refresh(topic)
        assert await found.allocate(["bills", "orders"]) == whole
        for topic in ("bills", "orders"):
            cluster.topic(topic, cluster.a, cluster.b, count=1)
        assert await found.allocate(["bills", "orders"]) == whole
        assert found.next_round_s is None


async def test_members_that_were_known_count_until_those_of_a_restarted_broker_had_time_to_come(cluster, monkeypatch):
    cluster.topic("orders", count=2)
    async with open_session(cluster, "orders", describe=describe) as session:
        cluster.a.members["g"] = {session.id: None, "zz@1": None}
        found = allocator(session)
        mine = {"orders": queues("orders", "broker-a", 0)}
        assert await found.allocate(["orders"]) == mine
        cluster.a.members["g"] = {}  # it has restarted, and a heartbeat brings this member alone
        assert await found.allocate(["orders"]) == mine
        assert found.next_round_s == queue_allocator.POLL_S
        monkeypatch.setattr(queue_allocator, "UNSETTLED_S", 0)
        assert await found.allocate(["orders"]) == {"orders": queues("orders", "broker-a", 0, 1)}


async def test_members_that_were_known_count_however_long_all_brokers_were_away(cluster, monkeypatch):
    cluster.topic("orders", count=2)
    async with open_session(cluster, "orders", describe=describe) as session:
        cluster.a.members["g"] = {session.id: None, "zz@1": None}
        found = allocator(session)
        mine = await found.allocate(["orders"])
        await cluster.a.stop()
        for since in (queue_allocator.UNSETTLED_S, 0):
            monkeypatch.setattr(queue_allocator, "UNSETTLED_S", since)
            assert await found.allocate(["orders"]) == {"orders": None}
        monkeypatch.undo()
        await cluster.a.start()
        cluster.a.members["g"] = {}  # it has restarted, and a heartbeat brings this member alone
        assert await found.allocate(["orders"]) == mine


async def test_a_member_that_joins_while_a_broker_is_away_leaves_no_queue_with_two_readers(cluster):
    """It does not know the queues of that broker; shared out by different lists others had two readers for 30 s."""
    cluster.topic("orders", cluster.a, cluster.b, count=2)
    async with open_session(cluster, "orders", describe=describe) as session:
        cluster.a.members["g"] = cluster.b.members["g"] = {session.id: None, "zz@1": None}
        found = allocator(session)
        assert await found.allocate(["orders"]) == {"orders": queues("orders", "broker-a", 0, 1)}
        cluster.topic("orders", cluster.b, count=2)
        await cluster.a.stop()
        cluster.b.members["g"] = {"0@1": None, session.id: None, "zz@1": None}
        for _ in range(2):
            assert await found.allocate(["orders"]) == {"orders": queues("orders", "broker-b", 1)}


async def test_members_that_were_known_count_after_a_restart_between_two_rounds(cluster):
    """This member's heartbeat may be the first that a restarted broker gets, before the queues are computed."""
    cluster.topic("orders", count=2)
    async with open_session(cluster, "orders", describe=describe) as session:
        cluster.a.members["g"] = {session.id: None, "zz@1": None}
        found = allocator(session)
        mine = await found.allocate(["orders"])
        await cluster.a.stop()
        await cluster.a.start()
        cluster.a.members["g"] = {session.id: None}
        assert await found.allocate(["orders"]) == mine
