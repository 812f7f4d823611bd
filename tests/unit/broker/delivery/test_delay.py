from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from orbitmq.broker.delivery.delay import DelayQueues, level_of, parse_delay_offsets, schedule
from orbitmq.errors import HeaderError
from orbitmq.model.message import Host
from orbitmq.model.topic import DataVersion, TopicConfig
from orbitmq.store import Draft, ReadStatus, Store, StoreConfig
from orbitmq.testing import FakeClock
from orbitmq.testing.fake_disk import FakeDisk
from orbitmq.wire.messages.properties import parse_properties
from orbitmq.wire.messages.record import Record, iter_records

from ..parts import memory_store

Serve = Callable[..., None]


class World:
    """A store with a clock of its own, and the delay queues on it."""

    def __init__(self, path: Path, offsets: dict[int, int] | None = None) -> None:
        self.now_ms = 1_000_000
        config = StoreConfig(path=path, segment_size=1 << 20, consume_queue_units=100)
        self.store = Store.open(config, store_host=Host("127.0.0.1", 1), clock=lambda: self.now_ms)
        self.topics = {"t": TopicConfig(topic="t")}
        self.queues = DelayQueues(self.store, self.topics.get, offsets)

    def add(self, level: int, body: bytes, topic: str = "t", queue_id: int = 2) -> None:
        self.store.append(schedule(Draft(topic, queue_id, body), {"TAGS": "a"}, level))

    def delivered(self, queue_id: int = 2) -> list[Record]:
        found = self.store.read("t", queue_id, 0, 1000, 1 << 20)
        return list(iter_records(found.body)) if found.status is ReadStatus.FOUND else []


def bodies(records: list[Record]) -> list[bytes]:
    return [bytes(record.body) for record in records]


def test_a_message_comes_when_its_level_says_and_in_the_order_of_its_level(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.add(2, b"5 s")
    world.add(1, b"1 s")
    world.now_ms += 500
    world.add(1, b"1 s, later")

    assert world.queues.deliver_due(1_000_999) == 0
    assert world.queues.deliver_due(1_001_000) == 1
    assert world.queues.deliver_due(1_004_999) == 1
    assert world.queues.are_waiting
    assert world.queues.deliver_due(1_005_000) == 1
    assert not world.queues.are_waiting
    assert bodies(world.delivered()) == [b"1 s", b"1 s, later", b"5 s"]
    assert parse_properties(world.delivered()[0].properties) == {"TAGS": "a", "REAL_TOPIC": "t", "REAL_QID": "2"}
    world.store.close()


def test_a_delayed_message_leaves_the_checksum_of_its_waiting_record_behind(tmp_path: Path) -> None:
    world = World(tmp_path)
    draft = schedule(Draft("t", 2, b"x"), {"TAGS": "a", "__CRC32#": "0123456789"}, 1)
    assert "__CRC32#" not in parse_properties(draft.properties)
    world.store.append(draft._replace(properties=draft.properties + b"__CRC32#\x010123456789\x02"))
    assert world.queues.deliver_due(world.now_ms + 1000) == 1
    assert "__CRC32#" not in parse_properties(world.delivered()[0].properties)
    world.store.close()


def test_what_waits_for_a_deleted_topic_is_dropped(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.add(1, b"orphan", topic="gone")
    world.add(1, b"fine")
    assert world.queues.deliver_due(world.now_ms + 1000) == 2
    assert bodies(world.delivered()) == [b"fine"]
    world.store.close()


def test_the_offset_is_kept_only_when_what_was_delivered_is_on_the_disk(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.add(1, b"x")
    assert world.queues.take_durable(1) is None
    world.queues.deliver_due(world.now_ms + 1000)
    assert world.queues.take_durable(1) is None
    world.store.flush()
    content = world.queues.take_durable(1)
    assert content is not None
    assert b"{1:1,2:0" in content
    assert world.queues.take_durable(1) is None
    offsets, version = parse_delay_offsets(content)
    assert version.counter == 1
    again = DelayQueues(world.store, world.topics.get, offsets, version)
    assert not again.are_waiting
    assert not DelayQueues(world.store, world.topics.get, {1: 99, 77: 5}).are_waiting
    assert DelayQueues(world.store, world.topics.get, {1: 0}).are_waiting
    world.store.close()


@pytest.mark.parametrize(
    ("text", "level"),
    [("3", 3), ("18", 18), ("99", 18), ("0", 0), ("-1", 0), ("x", 0), ("", 0), ("²", 0), ("9" * 5000, 18)],
)
def test_a_level_above_the_highest_is_the_highest(text: str, level: int) -> None:
    assert level_of({"DELAY": text}) == level


def test_a_damaged_file_is_refused() -> None:
    with pytest.raises(HeaderError):
        parse_delay_offsets(b'{"offsetTable":{"x":1}}')


@pytest.mark.parametrize(
    ("topic", "queue_id", "is_delivered"),
    [("t", "123456789", True), ("t", "1234567890", False), ("t", "-1", False), ("t", "", False), ("gone", "2", False)],
)
def test_a_message_goes_only_where_there_is_a_topic_and_a_queue_can_be(
    tmp_path: Path, topic: str, queue_id: str, is_delivered: bool
) -> None:
    world = World(tmp_path)
    draft = schedule(Draft(topic, 2, b"x"), {}, 1)
    world.store.append(
        draft._replace(properties=draft.properties.replace(b"REAL_QID\x012", f"REAL_QID\x01{queue_id}".encode()))
    )
    assert world.queues.deliver_due(world.now_ms + 1000) == 1
    assert world.store.queue_ids(topic) == ([int(queue_id)] if is_delivered else [])
    assert not world.queues.are_waiting
    world.store.close()


def test_what_was_dropped_needs_no_sync_to_be_passed_over_for_good(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.add(1, b"orphan", topic="gone")
    world.queues.deliver_due(world.now_ms + 1000)
    assert world.store.durable_offset == 0
    content = world.queues.take_durable(1)
    assert content is not None
    assert parse_delay_offsets(content)[0] == {level: int(level == 1) for level in range(1, 19)}
    world.store.close()


def test_delivery_goes_on_behind_messages_that_the_log_does_not_have_any_more() -> None:
    disk = FakeDisk()
    store = memory_store(disk)
    for number in range(3):
        store.append(schedule(Draft("t", 0, bytes(40_000) + b"%d" % number), {}, 1))
    store.close()
    disk.remove(Path("/store/commitlog") / f"{0:020}")
    store = memory_store(disk)
    queues = DelayQueues(store, {"t": TopicConfig(topic="t")}.get)
    late_ms = FakeClock().advance(10_000)
    assert [queues.deliver_due(late_ms) for _ in range(3)] == [0, 2, 0]
    assert not queues.are_waiting
    assert [bytes(store.message_at("t", 0, offset).body[-1:]) for offset in (0, 1)] == [b"1", b"2"]


def test_offsets_of_a_file_lie_between_the_beginning_and_the_end(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.add(1, b"x")
    for offset, is_waiting in ((-5, True), (0, True), (1, False), (2, False)):
        assert DelayQueues(world.store, world.topics.get, {1: offset}).are_waiting is is_waiting
    assert DelayQueues(world.store, world.topics.get, {1: -5}).deliver_due(world.now_ms + 1000) == 1
    world.store.close()


def test_a_file_without_tables_knows_nothing() -> None:
    assert parse_delay_offsets(b"{}") == ({}, DataVersion())
