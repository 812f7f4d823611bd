import asyncio

from orbitmq.client.consume.assignment.assignment import Assignment
from orbitmq.client.consume.offsets.queue_offsets import QueueOffsets
from orbitmq.client.consume.offsets.start_offsets import StartOffsets
from orbitmq.client.consume.pull.pull_request import PullSettings
from orbitmq.client.consume.subscriptions import parse_subscription
from orbitmq.client.session.session import ClientSession
from orbitmq.model.group import ConsumeFrom
from orbitmq.model.route import MessageQueue
from orbitmq.wire.headers import PullMessage
from waiting import until

QUEUES = [MessageQueue("orders", "broker-a", number) for number in range(2)]
ORDERS = parse_subscription("orders", "*", 1)


class Store:
    """An offset store in memory; `gate` holds its writers back."""

    def __init__(self):
        self.offsets = {}
        self.gate = asyncio.Event()
        self.gate.set()

    async def load(self, queue):
        return self.offsets.get(queue)

    async def store(self, queue, queue_offset):
        await self.gate.wait()
        self.offsets[queue] = queue_offset


class Owner:
    """An assignment on an open session."""

    def __init__(self, cluster):
        self.session = ClientSession(cluster.name_servers, instance="me")
        self.store = Store()
        self.ready = asyncio.Queue()
        starts = StartOffsets(self.store, QueueOffsets(self.session), ConsumeFrom.FIRST, None, stores=True)
        self.assignment = Assignment(
            self.session,
            "g",
            self.store,
            starts,
            settings=PullSettings(),
            commits_with_pulls=True,
            retry_delay_ms=1,
            on_ready=self.ready.put_nowait,
        )

    async def __aenter__(self):
        self.session.open()
        await self.session.routes.find("orders")
        return self

    async def __aexit__(self, *_):
        await self.session.close()


async def test_queues_are_begun_read_and_given_away_with_their_offsets(cluster):
    cluster.topic("orders", count=2)
    cluster.a.put("orders", 0, b"1")
    async with Owner(cluster) as owner:
        await owner.assignment.assign("orders", ORDERS, QUEUES)
        assert set(owner.assignment.queues) == set(QUEUES)
        assert owner.assignment.topics == {"orders"}
        assert (await owner.ready.get()).next_batch(1).commit()
        await owner.assignment.assign("orders", ORDERS, QUEUES[1:])
        assert set(owner.assignment.queues) == set(QUEUES[1:])
        assert owner.store.offsets[QUEUES[0]] == 1
        await owner.assignment.close()
        assert not owner.assignment.queues
        assert owner.store.offsets == {QUEUES[0]: 1, QUEUES[1]: 0}


async def test_a_queue_that_was_given_away_is_pulled_no_more(cluster):
    cluster.topic("orders", count=2)
    async with Owner(cluster) as owner:
        await owner.assignment.assign("orders", ORDERS, QUEUES[:1])
        await until(lambda: cluster.a.parked)
        await owner.assignment.assign("orders", ORDERS, [])
        cluster.a.put("orders", 0, b"1")
        for _ in range(100):
            await asyncio.sleep(0)
        assert len([request for request in cluster.a.requests if isinstance(request, PullMessage)]) == 1


async def test_without_a_subscription_all_queues_of_the_topic_go(cluster):
    cluster.topic("orders", count=2)
    async with Owner(cluster) as owner:
        await owner.assignment.assign("orders", ORDERS, QUEUES)
        await owner.assignment.assign("orders", None, QUEUES)
        assert not owner.assignment.queues


async def test_a_queue_whose_end_was_interrupted_is_not_forgotten(cluster):
    cluster.topic("orders", count=2)
    cluster.a.put("orders", 0, b"1")
    async with Owner(cluster) as owner:
        await owner.assignment.assign("orders", ORDERS, QUEUES[:1])
        (await owner.ready.get()).next_batch(1).commit()
        owner.store.gate.clear()
        leaving = asyncio.create_task(owner.assignment.assign("orders", ORDERS, []))
        await until(lambda: owner.assignment[QUEUES[0]].is_dropped)
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        owner.store.gate.set()
        await owner.assignment.close()
        assert owner.store.offsets == {QUEUES[0]: 1}
