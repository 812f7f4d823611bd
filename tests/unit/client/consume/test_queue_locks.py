from orbitmq.client.consume.queue_locks import BROKER_LIFETIME_MS, LOCK_LIFETIME_MS, HeldQueueLocks
from orbitmq.model.route import MessageQueue
from orbitmq.testing.clock import FakeClock
from orbitmq.wire.headers import LockQueues, UnlockQueues
from unit.client.support import open_session

FIRST, SECOND = (MessageQueue("orders", "broker-a", number) for number in range(2))
THIRD = MessageQueue("orders", "broker-b", 0)


def asked(broker, kind):
    return len([request for request in broker.requests if isinstance(request, kind)])


async def test_locks_are_taken_from_each_queues_broker_in_one_request(cluster):
    cluster.topic("orders", cluster.a, cluster.b)
    async with open_session(cluster, "orders") as session:
        locks = HeldQueueLocks(session, "g")
        assert not locks.holds(FIRST)
        assert await locks.lock([FIRST, SECOND, THIRD]) == {FIRST, SECOND, THIRD}
        assert all(map(locks.holds, (FIRST, SECOND, THIRD)))
        assert (asked(cluster.a, LockQueues), asked(cluster.b, LockQueues)) == (1, 1)
        assert await locks.lock([]) == set()


async def test_what_another_client_holds_is_not_granted_until_it_is_given_back(cluster):
    cluster.topic("orders", cluster.a, cluster.b)
    async with open_session(cluster, "orders") as ours, open_session(cluster, "orders", instance="other") as theirs:
        first, second = HeldQueueLocks(ours, "g"), HeldQueueLocks(theirs, "g")
        await first.lock([FIRST, THIRD])
        assert await second.lock([FIRST, SECOND, THIRD]) == {SECOND}
        assert not second.holds(FIRST)
        await first.unlock([FIRST, SECOND])
        assert not first.holds(FIRST)
        assert await second.lock([FIRST, THIRD]) == {FIRST}
        assert asked(cluster.a, UnlockQueues) == 1


async def test_a_lock_that_another_client_has_got_is_lost(cluster):
    cluster.topic("orders", cluster.a, cluster.b)
    async with open_session(cluster, "orders") as session:
        locks = HeldQueueLocks(session, "g")
        await locks.lock([FIRST, SECOND, THIRD])
        assert await locks.renew() == set()
        cluster.a.locks.unlock("g", session.id, [SECOND])
        cluster.a.locks.lock("g", "somebody", [SECOND], 0)
        assert await locks.renew() == {SECOND}
        assert [locks.holds(queue) for queue in (FIRST, SECOND, THIRD)] == [True, False, True]
        assert await locks.renew() == set()


async def test_a_broker_that_does_not_answer_takes_no_lock_away_before_its_time(cluster):
    cluster.topic("orders", cluster.a, cluster.b)
    async with open_session(cluster, "orders") as session:
        locks = HeldQueueLocks(session, "g")
        await locks.lock([FIRST, THIRD])
        assert not locks.has_unanswered
        await cluster.b.stop()
        assert await locks.renew() == set()
        assert locks.has_unanswered
        assert locks.holds(THIRD)
        assert await locks.lock([THIRD]) == set()


async def test_a_lock_ends_here_before_it_ends_at_the_broker(cluster):
    cluster.topic("orders")
    clock = FakeClock(0)
    async with open_session(cluster, "orders") as session:
        locks = HeldQueueLocks(session, "g", clock)
        await locks.lock([FIRST])
        clock.advance(LOCK_LIFETIME_MS)
        assert not locks.holds(FIRST)
        assert LOCK_LIFETIME_MS < BROKER_LIFETIME_MS
        assert await locks.renew() == set()
        assert locks.holds(FIRST)
        clock.advance(BROKER_LIFETIME_MS)  # it may have been another client's in between
        assert await locks.renew() == {FIRST}


async def test_giving_back_to_a_broker_that_is_away_is_no_error(cluster):
    cluster.topic("orders")
    async with open_session(cluster, "orders") as session:
        locks = HeldQueueLocks(session, "g")
        await locks.lock([FIRST])
        await cluster.a.stop()
        await locks.unlock([FIRST])
        assert not locks.holds(FIRST)


async def test_logical_queues_are_locked_at_the_brokers_that_lead_them(cluster):
    cluster.static_topic("orders", cluster.b, cluster.a)
    logical = {MessageQueue("orders", "__syslo__global__", number) for number in range(2)}
    async with open_session(cluster, "orders") as session:
        assert await HeldQueueLocks(session, "g").lock(logical) == logical
    assert (asked(cluster.a, LockQueues), asked(cluster.b, LockQueues)) == (1, 1)
