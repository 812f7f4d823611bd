"""The table of groups, and the locks of their queues."""

from __future__ import annotations

import pytest

from orbitmq.broker.groups.queue_locks import QueueLocks
from orbitmq.errors import Rejected
from orbitmq.model.route import MessageQueue
from orbitmq.wire.bodies.groups import GroupConfig

from ..parts import Registries


def test_a_new_group_is_kept_once() -> None:
    harness = Registries()
    made = harness.groups.find("g", 1)
    assert made == GroupConfig(group="g")
    assert harness.groups.find("g", 2) is made
    assert harness.log == ["groups saved"]


def test_a_group_that_may_not_be_made_is_not_kept() -> None:
    harness = Registries(auto_create_groups=False)
    assert harness.groups.find("g", 1) is None
    assert harness.log == []


def test_changes_and_removals_are_kept() -> None:
    harness = Registries()
    harness.groups.update(GroupConfig(group="g", retry_times_max=1), 1)
    assert harness.groups.find("g", 1) == GroupConfig(group="g", retry_times_max=1)
    harness.groups.delete("g", 2)
    assert harness.groups.configs.get("g") is None
    assert harness.log == ["groups saved"] * 2


def test_a_group_that_a_full_disk_refuses_is_not_there_nor_is_its_topic() -> None:
    harness = Registries()
    harness.groups.update(GroupConfig(group="old"), 1)
    harness.log.clear()
    version = harness.groups.configs.version
    harness.disk_error = OSError(28, "No space left on device")
    with pytest.raises(Rejected) as caught:
        harness.groups.find("g", 1)
    assert (caught.value.code, caught.value.remark) == (
        14, "the groups' settings cannot be saved: No space left on device",
    )  # fmt: skip
    for change in (
        lambda: harness.groups.update(GroupConfig(group="old", retry_times_max=1), 1),
        lambda: harness.groups.delete("old", 1),
    ):
        with pytest.raises(Rejected):
            change()
    assert harness.groups.configs.get("g") is None
    assert harness.groups.configs.get("old") == GroupConfig(group="old")
    assert harness.groups.configs.version is version
    assert harness.log == []
    harness.disk_error = None
    harness.groups.find("a", 2)
    harness.groups.delete("old", 2)
    harness.disk_error = OSError(28, "No space left on device")
    with pytest.raises(Rejected):
        harness.groups.delete("a", 3)
    assert harness.groups.configs.get("a") is not None
    assert harness.groups.configs.get("old") is None


Q0, Q1 = MessageQueue("t", "a", 0), MessageQueue("t", "a", 1)


def test_one_client_of_a_group_holds_a_queue_until_it_gives_it_back() -> None:
    locks = QueueLocks(60_000, 5_000)
    assert locks.lock("g", "c1", [Q0, Q1], 0) == [Q0, Q1]
    assert locks.lock("g", "c2", [Q0, Q1], 1) == []
    locks.unlock("g", "c2", [Q0])
    locks.unlock("g", "c1", [Q1])
    assert locks.lock("g", "c2", [Q0, Q1], 2) == [Q1]


def test_another_group_has_locks_of_its_own() -> None:
    locks = QueueLocks(60_000, 5_000)
    locks.lock("g", "c1", [Q0], 0)
    assert locks.lock("h", "c2", [Q0], 0) == [Q0]


def test_a_lock_runs_out_unless_it_is_renewed() -> None:
    locks = QueueLocks(60_000, 5_000)
    locks.lock("g", "c1", [Q0, Q1], 0)
    locks.lock("g", "c1", [Q0], 30_000)
    assert locks.lock("g", "c2", [Q0, Q1], 60_000) == [Q1]
    assert locks.lock("g", "c2", [Q0], 90_000) == [Q0]


def test_expired_locks_take_no_memory() -> None:
    locks = QueueLocks(10, 5)
    locks.lock("g", "c1", [Q0], 0)
    locks.expire(9)
    assert locks._locks
    locks.expire(10)
    assert not locks._locks


def test_a_group_keeps_order_while_any_of_its_locks_lives():
    locks = QueueLocks(10, 5)
    assert not locks.is_ordered("g", 0)
    locks.lock("g", "c1", [Q0], 0)
    assert locks.is_ordered("g", 9)
    assert not locks.is_ordered("h", 9)
    assert not locks.is_ordered("g", 10)
