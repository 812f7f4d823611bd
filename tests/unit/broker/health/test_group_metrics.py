"""Claims about how far behind groups are, asked of the parts of a broker over a store in memory."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cases import each_case
from orbitmq.broker.groups.offsets import GroupOffsets
from orbitmq.broker.health.group_metrics import (
    WORK_PER_PART,
    GroupMetrics,
    SeriesWork,
    by_topic,
    first_of,
    is_system_group,
    look,
)
from orbitmq.broker.monitoring.stats import BrokerStats
from orbitmq.errors import FileCut, StoreUnavailable
from orbitmq.monitoring.families import Families
from orbitmq.store import Draft
from orbitmq.testing import FakeClock
from orbitmq.testing.fake_disk import FakeDisk

from ..parts import memory_store


def test_a_part_ends_when_enough_was_looked_at() -> None:
    work = SeriesWork()
    assert [work.is_a_part_done(WORK_PER_PART - 1) for _ in range(3)] == [False, True, False]


def test_the_first_entries_stay_when_the_table_changes() -> None:
    table = {"a": 1, "b": 2, "c": 3}
    found = first_of(table, 2)
    table["d"] = 4
    assert list(found) == [("a", 1), ("b", 2)]


def test_many_topics_come_in_parts() -> None:
    rows = list(by_topic(dict.fromkeys(map(str, range(2 * WORK_PER_PART)), 7), 10_000))
    assert (rows.count(None), len(rows)) == (2, 2 * WORK_PER_PART + 2)
    assert rows[0] == (("0",), 7)


@each_case(StoreUnavailable("fenced"), FileCut("cut"), OSError(24, "too many files"))
def test_a_store_that_cannot_be_read_tells_no_time(error: Exception) -> None:
    def ask() -> int:
        raise error

    assert look(ask) == 0
    assert look(lambda: 5) == 5


def test_javas_own_groups_are_known_in_any_case() -> None:
    assert is_system_group("CID_RMQ_SYS_x")
    assert not is_system_group("CID_x")


START_MS = 1_000_000


class World:
    """A topic of two queues, to whose first one a message comes every second."""

    def __init__(self, count: int = 10) -> None:
        self.clock = FakeClock(START_MS)
        self.store = memory_store(FakeDisk(), self.clock)
        self.offsets = GroupOffsets()
        self.stats = BrokerStats(0)
        self.popped: dict[tuple[str, str, int], int] = {}
        for _ in range(count):
            self.store.append(Draft("t", 0, b"x"))
            self.clock.advance(1_000)
        self.begin = 0
        self.looks: list[tuple[str, int, int]] = []
        service: Any = SimpleNamespace(
            store=SimpleNamespace(
                max_offset=self.store.max_offset,
                min_offset=lambda topic, queue_id: max(self.begin, self.store.min_offset(topic, queue_id)),
                stored_at_ms=self._look,
            ),
            tables=SimpleNamespace(offsets=self.offsets),
            monitoring=SimpleNamespace(stats=self.stats),
            delivery=SimpleNamespace(
                pop=SimpleNamespace(revive_log=SimpleNamespace(checkpoints=SimpleNamespace(in_flight=self.popped)))
            ),
        )
        self.metrics = GroupMetrics(Families("rocketmq"), service, self.clock, 100)

    def _look(self, *place: Any) -> int:
        self.looks.append(place)
        return self.store.stored_at_ms(*place)

    def commit(self, queue_offset: int, *, group: str = "g", queue_id: int = 0) -> None:
        self.offsets.commit(group, "t", queue_id, queue_offset, offset_max=100)

    def figures(self, group: str = "g", topic: str = "t") -> dict[str, float]:
        return {
            sample.name.removeprefix("rocketmq_consumer_"): sample.value
            for family in self.metrics.collect()
            for sample in family.samples
            if (sample.labels["consumer_group"], sample.labels["topic"]) == (group, topic)
        }


@pytest.fixture
def world() -> World:
    return World()


def test_a_lag_has_a_number_and_an_age(world: World) -> None:
    world.commit(4)
    assert world.figures() == {
        "lag_messages": 6,
        "inflight_messages": 0,
        "ready_messages": 6,
        "lag_latency_milliseconds": 6_000,
        "queueing_latency_milliseconds": 6_000,
    }


def test_what_was_pulled_and_not_committed_is_in_flight(world: World) -> None:
    world.commit(4)
    world.stats.pulled_to("t", "g", 0, 7)
    assert world.figures() == {
        "lag_messages": 6,
        "inflight_messages": 3,
        "ready_messages": 3,
        "lag_latency_milliseconds": 6_000,
        "queueing_latency_milliseconds": 3_000,
    }


def test_what_was_popped_and_not_acknowledged_is_behind_the_offset(world: World) -> None:
    world.commit(10)
    world.popped["t", "g", 0] = 2
    assert world.figures() == {
        "lag_messages": 2,
        "inflight_messages": 2,
        "ready_messages": 0,
        "lag_latency_milliseconds": 2_000,
        "queueing_latency_milliseconds": 0,
    }


def test_a_group_that_has_everything_waits_for_nothing(world: World) -> None:
    world.commit(10)
    world.stats.pulled_to("t", "g", 0, 10)
    assert set(world.figures().values()) == {0}


def test_the_oldest_message_of_all_queues_counts_and_an_empty_queue_does_not() -> None:
    world = World(count=3)
    world.store.append(Draft("t", 1, b"x"))
    world.clock.advance(500)
    world.commit(2)
    world.commit(0, queue_id=1)
    world.commit(0, queue_id=5)
    assert world.figures()["lag_messages"] == 2
    assert world.figures()["lag_latency_milliseconds"] == 1_500


def test_messages_that_retention_took_do_not_lag(world: World) -> None:
    world.commit(2)
    world.begin = 6
    found = world.figures()
    assert (found["lag_messages"], found["inflight_messages"], found["ready_messages"]) == (4, 0, 4)
    world.stats.pulled_to("t", "g", 0, 7)
    assert (world.figures()["inflight_messages"], world.figures()["ready_messages"]) == (1, 3)


def test_an_offset_that_was_set_back_does_not_make_a_reader_of_what_is_behind_it(world: World) -> None:
    world.stats.pulled_to("t", "g", 0, 2)
    world.commit(6)
    assert (world.figures()["inflight_messages"], world.figures()["ready_messages"]) == (0, 4)


def test_a_group_at_rest_costs_the_log_one_look(world: World) -> None:
    world.commit(4)
    world.stats.pulled_to("t", "g", 0, 7)
    for _ in range(3):
        assert world.figures()["lag_latency_milliseconds"] == 6_000
    assert world.looks == [("t", 0, 4), ("t", 0, 7)]
    world.commit(5)
    assert world.figures()["lag_latency_milliseconds"] == 5_000
    assert world.looks[2:] == [("t", 0, 5)]


def test_a_store_that_cannot_be_read_leaves_the_numbers(world: World) -> None:
    world.commit(4)

    def refuse(*_place: Any) -> int:
        raise StoreUnavailable("a file was cut short")

    store: Any = world.metrics._service.store
    store.stored_at_ms = refuse
    assert (world.figures()["lag_messages"], world.figures()["lag_latency_milliseconds"]) == (6, 0)


def test_retries_and_what_is_the_brokers_own_are_marked(world: World) -> None:
    for group, topic in (("g", "%RETRY%g"), ("CID_RMQ_SYS_g", "t")):
        world.offsets.commit(group, topic, 0, 0, offset_max=0)
    marks = {
        (labels["consumer_group"], labels["topic"]): (labels["is_retry"], labels["is_system"])
        for family in world.metrics.collect()
        for labels in (sample.labels for sample in family.samples)
    }
    assert marks == {("g", "%RETRY%g"): ("true", "false"), ("CID_RMQ_SYS_g", "t"): ("false", "true")}
