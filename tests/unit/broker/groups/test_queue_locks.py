from __future__ import annotations

from orbitmq.broker.groups.queue_locks import QueueLocks
from orbitmq.model.route import MessageQueue

Q0, Q1 = MessageQueue("t", "a", 0), MessageQueue("t", "a", 1)


def test_one_client_of_a_group_holds_a_queue_until_it_gives_it_back() -> None:
    locks = QueueLocks(60_000)
    assert locks.lock("g", "c1", [Q0, Q1], 0) == [Q0, Q1]
    assert locks.lock("g", "c2", [Q0, Q1], 1) == []
    locks.unlock("g", "c2", [Q0])
    locks.unlock("g", "c1", [Q1])
    assert locks.lock("g", "c2", [Q0, Q1], 2) == [Q1]


def test_another_group_has_locks_of_its_own() -> None:
    locks = QueueLocks(60_000)
    locks.lock("g", "c1", [Q0], 0)
    assert locks.lock("h", "c2", [Q0], 0) == [Q0]


def test_a_lock_runs_out_unless_it_is_renewed() -> None:
    locks = QueueLocks(60_000)
    locks.lock("g", "c1", [Q0, Q1], 0)
    locks.lock("g", "c1", [Q0], 30_000)
    assert locks.lock("g", "c2", [Q0, Q1], 60_000) == [Q1]
    assert locks.lock("g", "c2", [Q0], 90_000) == [Q0]


def test_expired_locks_take_no_memory() -> None:
    locks = QueueLocks(10)
    locks.lock("g", "c1", [Q0], 0)
    locks.expire(9)
    assert locks._locks
    locks.expire(10)
    assert not locks._locks


def test_a_group_keeps_order_while_any_of_its_locks_lives():
    locks = QueueLocks(10)
    assert not locks.is_ordered("g", 0)
    locks.lock("g", "c1", [Q0], 0)
    assert locks.is_ordered("g", 9)
    assert not locks.is_ordered("h", 9)
    assert not locks.is_ordered("g", 10)
