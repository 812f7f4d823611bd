import asyncio
import logging
from contextlib import asynccontextmanager

import pytest

from orbitmq.client.consume.pull_request import PullSettings
from orbitmq.client.consume.puller import Puller
from orbitmq.client.consume.subscriptions import parse_subscription
from orbitmq.codes import ResponseCode
from orbitmq.errors import RouteNotFound
from orbitmq.model.route import BrokerData, MessageQueue, TopicRoute
from orbitmq.net.dispatch.handlers import Reply
from orbitmq.wire.headers import PullMessage, PullResponse
from unit.client.fakes import FakeBroker
from unit.client.support import noted_pauses, open_session
from waiting import until

QUEUE = MessageQueue("orders", "broker-a", 0)


class Notes:
    """What a puller asked for and told."""

    def __init__(self, *starts):
        self.starts = list(starts) or [0]
        self.resets = []
        self.arrivals = 0

    async def find_offset(self, queue):
        assert queue == QUEUE
        start = self.starts.pop(0)
        if isinstance(start, Exception):
            raise start
        return start

    def arrived(self):
        self.arrivals += 1


@asynccontextmanager
async def puller_of(cluster, notes, *, tag="*", commits=False, **settings):
    async with open_session(cluster, "orders") as session:
        puller = Puller(
            session,
            "g",
            QUEUE,
            parse_subscription("orders", tag, 1),
            find_offset=notes.find_offset,
            on_messages=notes.arrived,
            settings=PullSettings(**settings),
            may_commit=lambda: commits,
            on_reset=notes.resets.append,
        )
        yield puller
        await puller.stop()


def pulls(broker):
    return [request for request in broker.requests if isinstance(request, PullMessage)]


def answer_held(broker):
    """Answer the pulls that wait, as a broker does when it deletes a topic or comes back."""
    waiting, broker.held = broker.held, []
    for call in waiting:
        broker.pull(call)


def bodies(puller):
    return [message.body for message in puller.window.next_batch(1_000)]


async def test_messages_from_the_first_offset_on_are_put_into_the_window(cluster):
    cluster.fill(b"1", b"2", b"3")
    notes = Notes(1)
    async with puller_of(cluster, notes) as puller:
        assert not puller.is_started
        puller.start()
        await until(lambda: notes.arrivals)
        assert puller.is_started
        assert bodies(puller) == [b"2", b"3"]
        await until(lambda: cluster.a.held)
        cluster.a.put("orders", 0, b"4")
        await until(lambda: notes.arrivals == 2)
        assert [request.queue_offset for request in pulls(cluster.a)] == [1, 3, 4][: len(pulls(cluster.a))]


async def test_pulls_ask_as_the_settings_say(cluster):
    cluster.topic("orders", count=1)
    async with puller_of(cluster, Notes(), pull_count_max=7, suspend_ms=1_234, tag="A") as puller:
        puller.start()
        await until(lambda: cluster.a.held)
        (pull,) = pulls(cluster.a)
        assert (pull.count_max, pull.suspend_timeout_ms, pull.subscription) == (7, 1_234, "A")


async def test_a_full_window_pauses_pulling_until_there_is_room(cluster):
    cluster.fill(b"1", b"2", b"3", b"4")
    async with puller_of(cluster, Notes(), window_count_max=2, pull_count_max=2) as puller:
        puller.start()
        await until(lambda: puller.window.count == 2)
        for _ in range(50):
            await asyncio.sleep(0)
        assert len(pulls(cluster.a)) == 1
        batch = puller.window.next_batch(2)
        puller.resume()  # a wrong alarm: the batch is not done
        for _ in range(50):
            await asyncio.sleep(0)
        assert len(pulls(cluster.a)) == 1
        puller.window.settle(batch)
        puller.resume()
        await until(lambda: puller.window.count == 2)
        assert bodies(puller) == [b"3", b"4"]


@pytest.mark.parametrize("count", [1, 2, 5])
async def test_a_queue_that_was_created_again_while_the_window_was_full_begins_again(cluster, monkeypatch, count):
    monkeypatch.setattr("orbitmq.client.consume.puller.RECHECK_AFTER_S", 0)
    cluster.fill(b"1", b"2", b"3")
    notes = Notes()
    async with puller_of(cluster, notes, window_count_max=3) as puller:
        puller.start()
        await until(lambda: puller.window.count == 3)
        batch = puller.window.next_batch(3)
        cluster.a.queues["orders", 0].clear()
        cluster.a.put("orders", 0, *(b"new %d" % number for number in range(count)))
        puller.window.settle(batch)
        puller.resume()
        await until(lambda: puller.window.count)
        assert bodies(puller) == [b"new %d" % number for number in range(min(count, 5))]
        assert notes.resets == [0]


async def test_a_queue_that_is_the_same_after_a_pause_or_has_lost_its_end_goes_on(cluster, monkeypatch):
    monkeypatch.setattr("orbitmq.client.consume.puller.RECHECK_AFTER_S", 0)
    cluster.fill(b"1", b"2", b"3", b"4")
    notes = Notes()
    async with puller_of(cluster, notes, pull_count_max=2) as puller:
        puller.start()
        await until(lambda: puller.window.count == 4)
        await until(lambda: cluster.a.held)
        del cluster.a.queues["orders", 0][2:]  # as a crash of its broker does
        answer_held(cluster.a)
        await until(lambda: puller.window.pull_offset == 2)
        cluster.a.put("orders", 0, b"5")
        await until(lambda: puller.window.count == 5)
        assert (bodies(puller), notes.resets) == ([b"1", b"2", b"3", b"4", b"5"], [])


async def test_a_queue_that_lost_all_its_messages_begins_again_and_forgets_them(cluster):
    cluster.fill(b"1", b"2")
    notes = Notes()
    async with puller_of(cluster, notes) as puller:
        puller.start()
        await until(lambda: cluster.a.held)
        cluster.a.queues["orders", 0].clear()
        answer_held(cluster.a)
        await until(lambda: notes.resets == [0])
        assert (puller.window.count, puller.window.consumed_offset) == (0, 0)


async def test_a_window_may_be_bounded_by_bytes(cluster):
    cluster.fill(bytes(500), bytes(500))
    async with puller_of(cluster, Notes(), window_size_max=500, pull_count_max=1) as puller:
        puller.start()
        await until(lambda: puller.window.count)
        for _ in range(50):
            await asyncio.sleep(0)
        assert puller.window.count == 1


async def test_a_seek_leaves_the_pull_that_a_broker_holds(cluster):
    cluster.fill(b"1", b"2")
    notes = Notes(2)
    async with puller_of(cluster, notes) as puller:
        puller.start()
        await until(lambda: cluster.a.held)
        puller.seek(1)
        await until(lambda: notes.arrivals)
        assert bodies(puller) == [b"2"]


async def test_a_seek_before_the_start_is_the_first_offset(cluster):
    cluster.fill(b"1", b"2")
    notes = Notes(RouteNotFound("is not asked"))
    async with puller_of(cluster, notes) as puller:
        puller.seek(1)
        assert puller.is_started
        await asyncio.sleep(0.01)
        assert pulls(cluster.a) == []
        puller.start()
        await until(lambda: notes.arrivals)
        assert bodies(puller) == [b"2"]
        assert len(notes.starts) == 1


async def test_a_stopped_puller_pulls_no_more_not_even_after_a_seek(cluster):
    cluster.topic("orders", count=1)
    async with puller_of(cluster, Notes()) as puller:
        await puller.stop()  # before the start: nothing
        puller.start()
        await until(lambda: cluster.a.held)
        await puller.stop()
        puller.seek(0)
        await asyncio.sleep(0.01)
        assert len(pulls(cluster.a)) == 1


async def test_another_subscription_counts_from_the_next_pull_on(cluster):
    cluster.topic("orders", count=1)
    async with puller_of(cluster, Notes(), tag="A") as puller:
        puller.start()
        await until(lambda: cluster.a.held)
        puller.subscribe(parse_subscription("orders", "B", 2))
        cluster.a.put("orders", 0, b"1", tag="A")
        await until(lambda: len(pulls(cluster.a)) == 2)
        assert [(pull.subscription, pull.sub_version) for pull in pulls(cluster.a)] == [("A", 1), ("B", 2)]


@pytest.mark.parametrize(("commits", "kept"), [(True, {("g", "orders", 0): 1}), (False, {})])
async def test_pulls_carry_the_consumed_offset_where_that_is_wanted(cluster, commits, kept):
    cluster.fill(b"1", b"2")
    async with puller_of(cluster, Notes(), commits=commits) as puller:
        puller.start()
        await until(lambda: cluster.a.held)
        puller.window.settle(puller.window.next_batch(1))
        cluster.a.put("orders", 0, b"3")
        await until(lambda: len(pulls(cluster.a)) == 3)
        assert cluster.a.offsets == kept


async def test_a_broker_may_send_its_readers_to_a_slave_which_is_told_no_offset(cluster):
    slave = FakeBroker("broker-a")
    await slave.start()
    for broker in (cluster.a, slave):
        broker.put("orders", 0, b"1", b"2", b"3")
    cluster.topic("orders", count=1)
    members = BrokerData(cluster="c", broker_name="broker-a", addresses={0: cluster.a.address, 1: slave.address})
    cluster.routes["orders"] = TopicRoute(queues=cluster.routes["orders"].queues, brokers=(members,))
    cluster.a.suggested_broker_id = 1
    async with puller_of(cluster, Notes(1), commits=True, pull_count_max=1) as puller:
        puller.start()
        await until(lambda: pulls(slave))
        assert [pull.queue_offset for pull in pulls(cluster.a)] == [1]
        assert pulls(slave)[0].queue_offset == 2
        assert [pulls(broker)[0].commit_offset for broker in (cluster.a, slave)] == [1, 0]
    await slave.stop()


async def test_a_refusal_is_warned_of_once_and_tried_again_at_the_master(cluster, caplog):
    cluster.fill(b"1")
    cluster.a.refusals[PullMessage] = [ResponseCode.SYSTEM_BUSY] * 3
    notes = Notes()
    with caplog.at_level(logging.INFO, "orbitmq.client.consume"):
        async with puller_of(cluster, notes) as puller:
            puller.start()
            await until(lambda: notes.arrivals)
            await until(lambda: any("is read again" in line for line in caplog.messages))
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert "as the test wants" in warnings[0].getMessage()
    assert len([line for line in caplog.messages if "is read again" in line]) == 1


async def test_another_kind_of_refusal_is_news(cluster, caplog):
    cluster.fill(b"1")
    cluster.a.refusals[PullMessage] = [ResponseCode.SYSTEM_BUSY, ResponseCode.FLOW_CONTROL]
    notes = Notes()
    async with puller_of(cluster, notes) as puller:
        puller.start()
        await until(lambda: notes.arrivals)
    assert len([record for record in caplog.records if record.levelno == logging.WARNING]) == 2


async def test_pauses_after_failures_double_up_to_a_second(cluster, monkeypatch):
    cluster.fill(b"1")
    cluster.a.refusals[PullMessage] = [ResponseCode.SYSTEM_BUSY] * 7
    notes = Notes()
    async with puller_of(cluster, notes) as puller:
        with noted_pauses(monkeypatch) as pauses:
            puller.start()
            await until(lambda: notes.arrivals)
    assert pauses[:7] == [50, 100, 200, 400, 800, 1_000, 1_000]


async def test_the_pause_is_short_again_after_a_success(cluster, monkeypatch):
    cluster.fill(b"1", b"2", b"3")
    cluster.a.refusals[PullMessage] = [ResponseCode.SYSTEM_BUSY] * 2
    notes = Notes()
    async with puller_of(cluster, notes, pull_count_max=1) as puller:
        with noted_pauses(monkeypatch) as pauses:
            puller.start()
            await until(lambda: notes.arrivals == 3)
            await until(lambda: cluster.a.held)
            cluster.a.refusals[PullMessage] = [ResponseCode.SYSTEM_BUSY]
            cluster.a.put("orders", 0, b"4")
            await until(lambda: len(cluster.a.refusals[PullMessage]) == 0)
            await until(lambda: len(pauses) == 3)
    assert pauses == [50, 100, 50]


async def test_a_first_offset_that_cannot_be_found_is_looked_for_again(cluster):
    cluster.fill(b"1")
    notes = Notes(RouteNotFound("not yet"), 0)
    async with puller_of(cluster, notes) as puller:
        puller.start()
        await until(lambda: notes.arrivals)
        assert cluster.name_server.asked.count("orders") >= 2  # the route is looked at before the next attempt


async def test_an_empty_answer_that_comes_immediately_is_followed_by_a_pause(cluster, monkeypatch):
    monkeypatch.setattr("orbitmq.client.consume.puller.IDLE_PAUSE_MS", 10_000)  # an answer within it came immediately
    cluster.topic("orders", count=1)
    cluster.a.holds_pulls = False
    async with puller_of(cluster, Notes()) as puller:
        with noted_pauses(monkeypatch) as pauses:
            puller.start()
            await until(lambda: len(pauses) == 3)
            assert len(pulls(cluster.a)) == 3
    assert set(pauses) == {10_000}


async def test_an_empty_answer_that_took_its_time_is_followed_by_no_pause(cluster, monkeypatch):
    monkeypatch.setattr("orbitmq.client.consume.puller.IDLE_PAUSE_MS", -1)
    cluster.topic("orders", count=1)
    cluster.a.holds_pulls = False
    async with puller_of(cluster, Notes()) as puller:
        with noted_pauses(monkeypatch) as pauses:
            puller.start()
            await until(lambda: len(pulls(cluster.a)) == 3)
    assert pauses == []


async def test_an_answer_that_moves_on_is_followed_by_the_next_pull_immediately(cluster, monkeypatch):
    monkeypatch.setattr("orbitmq.client.consume.puller.IDLE_PAUSE_MS", 10_000)
    cluster.fill(*(b"x" for _ in range(9)), tag="B")
    async with puller_of(cluster, Notes(), tag="A", pull_count_max=1) as puller:
        with noted_pauses(monkeypatch) as pauses:
            puller.start()
            await until(lambda: len(pulls(cluster.a)) == 9)
            assert puller.window.count == 0
    assert pauses == []


async def test_an_offset_that_the_queue_does_not_hold_is_told_and_left(cluster, caplog):
    cluster.fill(b"1", b"2", b"3")
    cluster.a.min_offsets["orders", 0] = 2
    notes = Notes(0)
    async with puller_of(cluster, notes) as puller:
        puller.start()
        await until(lambda: notes.arrivals)
        assert bodies(puller) == [b"3"]
    assert f"queue {QUEUE} has no offset 0, it holds 2 to 3: going on at 2" in caplog.messages


async def test_a_broker_that_is_away_is_told_once_for_all_its_queues(cluster, caplog):
    cluster.fill(b"1")
    notes = Notes()
    with caplog.at_level(logging.INFO, "orbitmq.client"):
        async with puller_of(cluster, notes) as puller:
            await cluster.a.stop()
            puller.start()
            await until(lambda: any("brokerIP1" in line for line in caplog.messages))
            await asyncio.sleep(0.1)
            await cluster.a.start()
            await until(lambda: notes.arrivals)
    assert len([record for record in caplog.records if record.levelno == logging.WARNING]) == 1
    assert "broker broker-a answers again" in caplog.messages


async def test_a_group_that_was_set_to_another_offset_goes_on_there_and_forgets_what_it_has(cluster, monkeypatch):
    cluster.fill(b"1", b"2", b"3")
    notes = Notes()
    async with puller_of(cluster, notes) as puller:
        puller.start()
        await until(lambda: cluster.a.held)
        given = puller.window.next_batch(1)
        pull = cluster.a.pull

        def moved(call):
            monkeypatch.setattr(cluster.a, "pull", pull)
            header = PullResponse(suggest_which_broker_id=0, next_begin_offset=1, min_offset=0, max_offset=4)
            call.answer(Reply(ResponseCode.PULL_OFFSET_MOVED, "OFFSET_RESET", header))

        monkeypatch.setattr(cluster.a, "pull", moved)
        notes.arrivals = 0
        puller.seek(3)  # the next pull
        await until(lambda: notes.arrivals)
        assert puller.window.consumed_offset == 1
        assert notes.resets == [1]
        assert not puller.window.settle(given)
        assert bodies(puller) == [b"2", b"3"]


async def test_one_route_is_asked_for_on_behalf_of_all_queues_whose_broker_is_in_none(cluster):
    """A consumer of 200 topics asked its NameServer 100 times a second while a broker was away."""
    topics = [f"t{number}" for number in range(20)]
    cluster.topic("orders", cluster.b)
    async with open_session(cluster, "orders") as session:
        cluster.name_server.asked.clear()
        pullers = [
            Puller(
                session,
                "g",
                MessageQueue(topic, "broker-a", 0),
                parse_subscription(topic, "*", 1),
                find_offset=Notes().find_offset,
                on_messages=lambda: None,
                settings=PullSettings(),
                may_commit=lambda: False,
                on_reset=lambda _offset: None,
            )
            for topic in topics
        ]
        for puller in pullers:
            puller.is_started = True
            puller.start()
        await until(lambda: cluster.name_server.asked and all(puller.refusal is not None for puller in pullers))
        await asyncio.gather(*(puller.stop() for puller in pullers))
        assert len(cluster.name_server.asked) == 1
