import asyncio

from orbitmq.client.consume.assigned_queue import Consumption
from orbitmq.client.consume.assignment import Assignment
from orbitmq.client.consume.pull_request import PullSettings
from orbitmq.client.consume.queue_locks import LOCK_LIFETIME_MS, HeldQueueLocks
from orbitmq.client.consume.redelivery import RedeliveryPolicy
from orbitmq.client.consume.send_backs import Drops
from orbitmq.client.consume.start_offsets import QueueOffsets, StartOffsets
from orbitmq.client.consume.subscriptions import parse_subscription
from orbitmq.client.session.session import ClientSession
from orbitmq.model.group import ConsumeFrom
from orbitmq.model.route import MessageQueue
from orbitmq.testing.clock import FakeClock
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

    def __init__(self, cluster, *, instance="me", ordered=False):
        self.session = ClientSession(cluster.name_servers, instance=instance)
        self.lost = asyncio.Event()
        self.store = Store()
        self.ready = asyncio.Queue()
        starts = StartOffsets(self.store, QueueOffsets(self.session), ConsumeFrom.FIRST, None, stores=True)
        self.assignment = Assignment(
            self.session,
            "g",
            self.store,
            starts,
            Consumption(
                policy=RedeliveryPolicy(is_in_place=True, retry_delay_ms=1),
                send_backs=Drops("g"),
                tasks=self.session.tasks,
                on_ready=self.ready.put_nowait,
            ),
            settings=PullSettings(),
            commits_with_pulls=True,
            locks=HeldQueueLocks(self.session, "g") if ordered else None,
            on_lost=self.lost.set,
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
        await until(lambda: cluster.a.held)
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


async def test_in_order_only_queues_whose_locks_are_granted_are_read(cluster):
    cluster.topic("orders", count=2)
    async with Owner(cluster, ordered=True) as owner:
        cluster.a.locks.lock("g", "somebody", QUEUES[:1], 0)
        assert not await owner.assignment.assign("orders", ORDERS, QUEUES)
        assert set(owner.assignment.queues) == {QUEUES[1]}
        cluster.a.locks.unlock("g", "somebody", QUEUES[:1])
        assert await owner.assignment.assign("orders", ORDERS, QUEUES)
        assert set(owner.assignment.queues) == set(QUEUES)
        await owner.assignment.close()
        assert cluster.a.locks.lock("g", "somebody", QUEUES, 0) == QUEUES


async def test_in_order_a_queue_keeps_its_lock_until_its_batch_is_settled_and_its_offset_stored(cluster):
    cluster.fill(b"1", b"2")
    queue = QUEUES[0]
    async with Owner(cluster, ordered=True) as owner:
        await owner.assignment.assign("orders", ORDERS, [queue])
        batch = (await owner.ready.get()).next_batch(1)
        assert await owner.assignment.assign("orders", ORDERS, [])
        assert not owner.assignment.queues
        assert not await owner.assignment.assign("orders", ORDERS, [queue])  # it comes back before it has gone
        await until(lambda: owner.assignment[queue].is_revoked)
        assert cluster.a.locks.lock("g", "somebody", [queue], 0) == []
        assert batch.commit()
        await owner.lost.wait()
        assert owner.store.offsets == {queue: 1}
        assert cluster.a.locks.lock("g", "somebody", [queue], 0) == [queue]


async def test_closing_does_not_wait_for_an_unsettled_batch(cluster):
    cluster.topic("orders", count=2)
    cluster.a.put("orders", 0, b"1", b"2")
    cluster.a.put("orders", 1, b"3")
    async with Owner(cluster, ordered=True) as owner:
        await owner.assignment.assign("orders", ORDERS, QUEUES)
        batches = [(await owner.ready.get()).next_batch(1) for _ in range(2)]
        await owner.assignment.assign("orders", ORDERS, QUEUES[1:])
        await owner.assignment.close()
        assert not any(batch.commit() for batch in batches)
        assert owner.store.offsets == dict.fromkeys(QUEUES, 0)
        assert cluster.a.locks.lock("g", "somebody", QUEUES, 0) == QUEUES


async def test_a_lost_lock_ends_the_queue_and_leaves_the_offset_to_its_new_owner(cluster, monkeypatch):
    monkeypatch.setattr("orbitmq.client.consume.assignment.LOCK_INTERVAL_MS", 1)
    cluster.topic("orders", count=2)
    cluster.a.put("orders", 0, b"1", b"2")
    async with Owner(cluster, ordered=True) as owner:
        await owner.assignment.assign("orders", ORDERS, QUEUES)
        assert (await owner.ready.get()).next_batch(1).commit()
        cluster.a.locks.unlock("g", owner.session.id, QUEUES[:1])
        cluster.a.locks.lock("g", "somebody", QUEUES[:1], 0)
        owner.store.offsets[QUEUES[0]] = 2  # the new owner's
        owner.session.tasks.spawn(owner.assignment.keep_locks(), "locks")
        await owner.lost.wait()
        assert set(owner.assignment.queues) == {QUEUES[1]}
        await owner.assignment.store_offsets()
        assert owner.store.offsets[QUEUES[0]] == 2


async def test_a_queue_that_waited_for_its_lock_goes_on_when_it_is_renewed(cluster, monkeypatch):
    monkeypatch.setattr("orbitmq.client.consume.assignment.LOCK_INTERVAL_MS", 1)
    cluster.topic("orders", count=1)
    async with Owner(cluster, ordered=True) as owner:
        clock = FakeClock(0)
        locks = owner.assignment._locks = HeldQueueLocks(owner.session, "g", clock)
        await owner.assignment.assign("orders", ORDERS, QUEUES[:1])
        await until(lambda: cluster.a.held)
        clock.advance(LOCK_LIFETIME_MS)
        cluster.a.put("orders", 0, b"1")
        await until(lambda: owner.assignment[QUEUES[0]].puller.window.is_ready)
        assert owner.ready.empty()
        await owner.assignment.store_offsets()  # another client's may be further
        assert owner.store.offsets == {QUEUES[0]: 0}
        owner.session.tasks.spawn(owner.assignment.keep_locks(), "locks")
        assert (await owner.ready.get()).next_batch(1).commit()
        assert locks.holds(QUEUES[0])
