"""The queue of the next message."""

import asyncio
from contextlib import asynccontextmanager
from random import Random

import pytest

from cases import each_case
from orbitmq.client.send.attempts import FaultTolerance
from orbitmq.client.send.queue_selector import QueueSelector, RoundRobin, Target, choose_by_key
from orbitmq.errors import RouteNotFound
from orbitmq.model.route import BrokerData, MessageQueue, QueueData, TopicRoute
from unit.client.support import open_session

ORDERS = Target("orders")


def queue(name, number):
    return MessageQueue("t", name, number)


@each_case(("order-1", 0), ("hello", 2), ("", 0), ("polygenelubricants", 3))
def test_a_key_chooses_the_queue_that_java_chooses(key, index):
    # Java: Math.abs(key.hashCode() % 5); "polygenelubricants" hashes to Integer.MIN_VALUE.
    assert choose_by_key([queue("a", number) for number in range(5)], key).queue_id == index


@asynccontextmanager
async def selector_of(cluster, faults=None, *, seed=1, queue_count=4):
    async with open_session(cluster) as session:
        selector = QueueSelector(session.routes, faults, random=Random(seed), queue_count=queue_count)
        yield selector, session.routes


def now_ms():
    return int(asyncio.get_running_loop().time() * 1000)


def orders(broker, number):
    return MessageQueue("orders", broker, number)


async def test_queues_are_chosen_in_turn_once_the_route_is_known(cluster):
    cluster.topic("orders", cluster.a, cluster.b, count=2)
    async with selector_of(cluster) as (selector, _routes):
        assert selector.choose_now(ORDERS) is None
        found = [await selector.choose(ORDERS) for _ in range(3)] + [selector.choose_now(ORDERS)]
        every = [orders("broker-a", 0), orders("broker-a", 1), orders("broker-b", 0), orders("broker-b", 1)]
        assert sorted(found) == every
        assert await selector.queues("orders") == tuple(every)
        assert cluster.name_server.asked == ["orders"]


async def test_producers_begin_at_different_queues(cluster):
    cluster.topic("orders", count=8)
    firsts = set()
    for seed in range(20):
        async with selector_of(cluster, seed=seed) as (selector, _routes):
            firsts.add(await selector.choose(ORDERS))
    assert len(firsts) > 4


async def test_turns_go_on_when_the_route_changes(cluster):
    cluster.topic("orders", count=4)
    async with selector_of(cluster) as (selector, routes):
        first = await selector.choose(ORDERS)
        cluster.topic("orders", cluster.a, count=4, perm=2)
        await routes.refresh("orders")
        assert selector.choose_now(ORDERS).queue_id == (first.queue_id + 1) % 4


async def test_a_key_has_a_queue(cluster):
    cluster.topic("orders", count=5)
    async with selector_of(cluster) as (selector, _routes):
        target = Target("orders", key="hello")
        assert [(await selector.choose(target)).queue_id, selector.choose_now(target).queue_id] == [2, 2]


async def test_a_named_queue_is_taken_as_it_is_and_its_broker_is_looked_up(cluster):
    cluster.topic("orders")
    named = Target("orders", orders("broker-a", 77))
    async with selector_of(cluster) as (selector, routes):
        assert await selector.choose(named) == named.queue
        assert routes.address("broker-a") == cluster.a.address
        assert await selector.choose(named) == named.queue
        assert cluster.name_server.asked == ["orders"]


async def test_brokers_that_failed_in_this_send_are_passed(cluster):
    cluster.topic("orders", cluster.a, cluster.b, count=2)
    for faults in (None, FaultTolerance()):
        async with selector_of(cluster, faults) as (selector, _routes):
            failed = frozenset(("broker-a",))
            assert {(await selector.choose(ORDERS, failed)).broker_name for _ in range(4)} == {"broker-b"}
            assert {selector.choose_now(ORDERS, failed).broker_name for _ in range(4)} == {"broker-b"}
            assert {selector.choose_now(ORDERS).broker_name for _ in range(4)} == {"broker-a", "broker-b"}


async def test_brokers_that_failed_in_earlier_sends_are_passed(cluster):
    cluster.topic("orders", cluster.a, cluster.b, count=2)
    faults = FaultTolerance()
    async with selector_of(cluster, faults) as (selector, _routes):
        faults.record_failure("broker-b", now_ms() - 9_000)
        assert {(await selector.choose(ORDERS)).broker_name for _ in range(4)} == {"broker-a"}
        faults.record_failure("broker-b", now_ms() - 10_001)
        assert {selector.choose_now(ORDERS).broker_name for _ in range(4)} == {"broker-a", "broker-b"}


async def test_when_all_are_avoided_the_one_that_comes_back_first_is_chosen(cluster):
    cluster.topic("orders", cluster.a, cluster.b, count=2)
    faults = FaultTolerance()
    async with selector_of(cluster, faults) as (selector, _routes):
        faults.record_answer("broker-a", 20_000, now_ms())
        faults.record_answer("broker-b", 600, now_ms())
        assert {(await selector.choose(ORDERS)).broker_name for _ in range(4)} == {"broker-b"}
        # ... unless it has just failed: then the other one, for all that it is avoided longer.
        assert {selector.choose_now(ORDERS, frozenset(("broker-b",))).broker_name for _ in range(4)} == {"broker-a"}
        both = frozenset(("broker-a", "broker-b"))
        assert {selector.choose_now(ORDERS, both).broker_name for _ in range(4)} == {"broker-b"}


@pytest.mark.parametrize(("queue_count", "expected"), [(4, 4), (16, 8)])
async def test_a_topic_that_does_not_exist_has_the_queues_that_it_will_get(cluster, queue_count, expected):
    cluster.topic("TBW102", count=8)
    async with selector_of(cluster, queue_count=queue_count) as (selector, _routes):
        queues = await selector.queues("orders")
        assert queues == tuple(orders("broker-a", number) for number in range(expected))


async def test_the_message_that_creates_a_topic_is_told_once(cluster):
    cluster.topic("TBW102")
    cluster.topic("known")
    async with selector_of(cluster) as (selector, _routes):
        assert not selector.mark_created("orders")
        await selector.queues("orders")
        await selector.queues("known")
        assert selector.mark_created("orders")
        assert not selector.mark_created("orders")
        assert not selector.mark_created("known")


async def test_a_topic_found_meanwhile_needs_no_creation(cluster):
    cluster.topic("TBW102")
    async with selector_of(cluster) as (selector, routes):
        await selector.queues("orders")
        cluster.topic("orders", count=9)
        await routes.refresh("orders")
        assert len(await selector.queues("orders")) == 9
        assert not selector.mark_created("orders")


async def test_without_a_template_an_unknown_topic_is_an_error_that_names_it(cluster):
    async with selector_of(cluster) as (selector, _routes):
        with pytest.raises(RouteNotFound, match="topic orders has no route"):
            await selector.choose(ORDERS)
        cluster.topic("TBW102", perm=4)
        with pytest.raises(RouteNotFound, match="topic orders has no route"):
            await selector.queues("orders")


async def test_an_ordered_topics_queues_are_found_without_a_template(cluster):
    cluster.routes["TBW102"] = TopicRoute(order_topic_conf="broker-a:3")
    async with selector_of(cluster, queue_count=2) as (selector, _routes):
        assert len(await selector.queues("orders")) == 3


@pytest.mark.parametrize(
    ("route", "why"),
    [
        (TopicRoute(), "no queues at all"),
        (
            TopicRoute(
                queues=(QueueData(broker_name="a", read_queue_count=1, write_queue_count=1, perm=4),),
                brokers=(BrokerData(cluster="c", broker_name="a", addresses={0: "a:1"}),),
            ),
            "a perm 4",
        ),
    ],
)
async def test_a_topic_that_cannot_be_written_says_why(cluster, route, why):
    cluster.routes["orders"] = route
    async with selector_of(cluster) as (selector, _routes):
        with pytest.raises(RouteNotFound, match=f"no queue that can be written .{why}."):
            await selector.choose(ORDERS)


async def test_a_topic_that_can_no_longer_be_written_is_forgotten(cluster):
    cluster.topic("orders")
    async with selector_of(cluster) as (selector, routes):
        await selector.choose(ORDERS)
        cluster.topic("orders", perm=4)
        await routes.refresh("orders")
        assert selector.choose_now(ORDERS) is None


async def test_routes_of_other_topics_change_nothing(cluster):
    cluster.topic("other")
    async with selector_of(cluster) as (selector, routes):
        await routes.find("other")
        assert selector.choose_now(Target("other")) is None


async def test_a_topic_that_is_sent_to_is_kept_up_to_date(cluster):
    cluster.topic("orders")
    async with selector_of(cluster) as (selector, routes):
        await selector.choose(ORDERS)
        cluster.topic("orders", count=9)
        await routes.refresh_all()
        assert len(await selector.queues("orders")) == 9


def test_round_robin_visits_every_queue_in_turn():
    queues = [queue("a", 0), queue("a", 1), queue("b", 0)]
    turns = RoundRobin(4)
    assert [turns.choose(queues) for _ in range(4)] == [queues[1], queues[2], queues[0], queues[1]]


def test_round_robin_passes_avoided_brokers_and_goes_on_behind_them():
    queues = [queue("a", 0), queue("a", 1), queue("b", 0), queue("c", 0)]
    turns = RoundRobin(0)
    assert [turns.choose(queues, {"a"}) for _ in range(3)] == [queues[2], queues[3], queues[2]]


def test_round_robin_takes_any_queue_when_all_brokers_are_avoided():
    queues = [queue("a", 0), queue("b", 0)]
    assert RoundRobin(1).choose(queues, {"a", "b"}) == queues[1]


async def test_a_topic_that_is_not_there_is_not_watched_after_the_error(cluster):
    """A client that sent to 500 names which are not there asked for them hundreds of times a second, for ever."""
    cluster.routes.pop("TBW102", None)
    async with selector_of(cluster) as (selector, routes):
        with pytest.raises(RouteNotFound):
            await selector.choose(Target("nowhere"))
        assert not routes.is_watched("nowhere")


async def test_the_queues_of_a_topic_that_is_gone_are_forgotten(cluster, monkeypatch):
    monkeypatch.setattr("orbitmq.client.routing.routes.FORGET_AFTER_S", 0.0)
    cluster.topic("orders", count=2)
    async with selector_of(cluster) as (selector, routes):
        await selector.choose(ORDERS)
        assert routes.is_watched("orders")
        del cluster.routes["orders"]
        with pytest.raises(RouteNotFound):
            await routes.refresh("orders")
        assert selector.choose_now(ORDERS) is None
