from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from orbitmq.broker.delivery.delay import DelayQueues, level_of, parse_delay_offsets, schedule
from orbitmq.errors import HeaderError
from orbitmq.model.message import Host
from orbitmq.model.topic import TopicConfig
from orbitmq.store import Draft, ReadStatus, Store, StoreConfig
from orbitmq.wire.messages.properties import parse_properties
from orbitmq.wire.messages.record import Record, iter_records

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
