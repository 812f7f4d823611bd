import asyncio
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from orbitmq.client.consume.rebalancer import Rebalancer, RebalanceRequests
from orbitmq.client.consume.subscriptions import parse_subscription
from orbitmq.errors import NoNameServer
from orbitmq.model.route import MessageQueue
from unit.client.support import describe, open_session
from waiting import until

RETRY = "%RETRY%g"


def queues(topic):
    return [MessageQueue(topic, "broker-a", 0)]


class FakeAllocator:
    """Gives each topic one queue, but those in `unknown` none."""

    next_round_s = None

    def __init__(self):
        self.unknown = set()
        self.asked = []

    async def allocate(self, topics):
        self.asked.append(tuple(topics))
        return {topic: None if topic in self.unknown else queues(topic) for topic in topics}


class FakeAssignment:
    """Notes what it is to read."""

    def __init__(self):
        self.queues = {}
        self.is_locked_out = False

    @property
    def topics(self):
        return set(self.queues)

    async def assign(self, topic, subscription, queues):
        if subscription is None:
            self.queues.pop(topic, None)
        else:
            self.queues[topic] = queues
        return not self.is_locked_out


class Parts:
    """A rebalancer with its neighbours."""

    def __init__(self, session, interval_ms, requests):
        self.session = session
        self.allocator = cast(Any, FakeAllocator())
        self.assignment = cast(Any, FakeAssignment())
        self.subscriptions = {}
        self.requests = requests(RETRY)
        self.rebalancer = Rebalancer(
            session, self.allocator, self.assignment, self.subscriptions, self.requests, interval_ms=interval_ms
        )

    def subscribe(self, *topics):
        for topic in topics:
            self.subscriptions[topic] = parse_subscription(topic, "*", 1)

    def start(self):
        self.session.tasks.spawn(self.rebalancer.run(), "rebalancer")

    async def rounds(self, count):
        await until(lambda: len(self.allocator.asked) >= count)


@asynccontextmanager
async def rebalancer_of(cluster, *topics, interval_ms=60_000, requests=RebalanceRequests, **settings):
    async with open_session(cluster, **settings) as session:
        parts = Parts(session, interval_ms, requests)
        parts.subscribe(*topics)
        yield parts


async def idle():
    for _ in range(100):
        await asyncio.sleep(0)


async def test_nothing_happens_without_a_reason(cluster):
    async with rebalancer_of(cluster, "orders") as parts:
        parts.start()
        await parts.rounds(1)
        await idle()
        assert len(parts.allocator.asked) == 1


async def test_a_changed_route_of_a_subscribed_topic_rebalances_and_another_does_not(cluster):
    cluster.topic("orders")
    cluster.topic("bills")
    async with rebalancer_of(cluster, "orders") as parts:
        parts.start()
        await parts.rounds(2)  # the second one because the route was found
        await parts.session.routes.find("bills")
        await idle()
        assert len(parts.allocator.asked) == 2
        cluster.topic("orders", count=3)
        await parts.session.routes.refresh("orders")
        await parts.rounds(3)


async def test_changed_subscriptions_are_told_to_brokers_and_assigned(cluster):
    cluster.topic("orders")
    async with rebalancer_of(cluster, "orders", describe=describe) as parts:
        parts.start()
        await until(lambda: parts.assignment.queues and cluster.a.heartbeats)
        await idle()
        count = len(cluster.a.heartbeats)
        parts.subscribe("bills")
        del parts.subscriptions["orders"]
        parts.requests.note_subscriptions()
        await until(lambda: parts.assignment.queues == {"bills": queues("bills")})
        assert len(cluster.a.heartbeats) == count + 1
        parts.requests.add()  # no reason for another heartbeat
        await idle()
        assert len(cluster.a.heartbeats) == count + 1


async def test_a_topic_that_cannot_be_told_stays_as_it_is(cluster):
    async with rebalancer_of(cluster, "orders", "bills") as parts:
        parts.start()
        await parts.rebalancer.first_assignment()
        parts.allocator.unknown = {"orders"}
        parts.requests.add()
        await parts.rounds(2)
        assert parts.assignment.queues == {"orders": queues("orders"), "bills": queues("bills")}


@pytest.mark.parametrize(
    ("topics", "unknown", "is_assigned"),
    [
        (["orders", RETRY], {RETRY}, True),
        (["orders", RETRY], set(), True),
        (["orders", "bills"], {"bills"}, False),
        ([RETRY], set(), False),
        ([], set(), False),
    ],
)
async def test_the_first_assignment_is_that_of_all_topics_but_the_retry_topic(cluster, topics, unknown, is_assigned):
    async with rebalancer_of(cluster, *topics) as parts:
        parts.allocator.unknown = unknown
        parts.start()
        await parts.rounds(1)
        await idle()
        waiting = asyncio.ensure_future(parts.rebalancer.first_assignment())
        await asyncio.sleep(0)
        assert waiting.done() is is_assigned
        waiting.cancel()


class NotedRequests(RebalanceRequests):
    """Notes how long the rebalancer would wait, in ms, and lets it go on."""

    def __init__(self, optional_topic):
        super().__init__(optional_topic)
        self.pauses = []

    async def wait(self, limit_ms):
        self.pauses.append(limit_ms)
        await asyncio.sleep(0)


async def pauses_of(cluster, parts, count):
    """Return the first pauses between rounds, in ms, none of which is waited for."""
    cluster.topic("orders")
    await parts.session.routes.find("orders")  # no news later
    parts.requests.due.clear()
    parts.start()
    await until(lambda: len(parts.requests.pauses) >= count)
    return parts.requests.pauses[:count]


async def test_what_cannot_be_told_is_looked_at_again_soon_and_then_less_often(cluster):
    async with rebalancer_of(cluster, "orders", requests=NotedRequests) as parts:
        parts.allocator.unknown = {"orders"}
        expected = [1_000, 2_000, 4_000, 8_000, 16_000, 20_000, 20_000]
        assert await pauses_of(cluster, parts, 7) == expected


async def test_a_shorter_interval_bounds_the_pauses(cluster):
    async with rebalancer_of(cluster, "orders", interval_ms=1_500, requests=NotedRequests) as parts:
        parts.allocator.unknown = {"orders"}
        assert await pauses_of(cluster, parts, 3) == [1_000, 1_500, 1_500]


async def test_a_balanced_group_is_looked_at_after_the_whole_interval(cluster):
    async with rebalancer_of(cluster, "orders", interval_ms=7_000, requests=NotedRequests) as parts:
        assert await pauses_of(cluster, parts, 2) == [7_000, 7_000]


async def test_while_others_hold_locks_they_are_asked_for_again_soon(cluster):
    async with rebalancer_of(cluster, "orders", interval_ms=7_000, requests=NotedRequests) as parts:
        parts.assignment.is_locked_out = True
        assert await pauses_of(cluster, parts, 3) == [500, 500, 500]


async def test_a_retry_topic_that_must_be_there_is_looked_for_again_soon(cluster):
    async with rebalancer_of(cluster, "orders", RETRY, interval_ms=7_000, requests=NotedRequests) as parts:
        parts.allocator.unknown = {RETRY}
        parts.requests.require_all()
        assert await pauses_of(cluster, parts, 3) == [1_000, 2_000, 4_000]


async def test_a_retry_topic_is_looked_for_immediately_and_asked_for_once(cluster):
    async with rebalancer_of(cluster, "orders", RETRY) as parts:
        parts.start()
        await parts.rounds(1)
        parts.requests.require_all()
        await parts.rounds(2)
        parts.requests.require_all()
        await idle()
        assert len(parts.allocator.asked) == 2


async def test_news_make_the_pauses_short_again(cluster):
    async with rebalancer_of(cluster, "orders", requests=NotedRequests) as parts:
        parts.allocator.unknown = {"orders"}
        allocate, rounds = parts.allocator.allocate, []

        async def note(topics):
            rounds.append(1)
            if len(rounds) == 3:
                parts.requests.add()
            return await allocate(topics)

        parts.allocator.allocate = note
        assert await pauses_of(cluster, parts, 4) == [1_000, 2_000, 4_000, 1_000]


async def test_routes_are_found_although_some_topics_are_missing(cluster):
    cluster.topic("orders")
    async with rebalancer_of(cluster, "nowhere", "orders") as parts:
        await parts.rebalancer.find_routes()
        assert list(parts.session.routes.known.routes) == ["orders"]


async def test_without_a_name_server_finding_routes_is_an_error_where_that_is_asked_for(cluster):
    await cluster.name_server.stop()
    async with rebalancer_of(cluster, "orders") as parts:
        with pytest.raises(NoNameServer):
            await parts.rebalancer.find_routes()
        await parts.rebalancer.find_routes(raises=False)


async def test_an_outage_of_the_name_servers_does_not_end_the_rebalancing(cluster):
    await cluster.name_server.stop()
    async with rebalancer_of(cluster, "orders", interval_ms=1) as parts:
        parts.start()
        parts.requests.note_subscriptions()
        await parts.rounds(3)
