"""Delayed messages and their deadlines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cases import each_case
from orbitmq.broker.delivery import delay
from orbitmq.broker.delivery.deadlines import GRAIN_PARTS, Deadlines
from orbitmq.broker.delivery.delay import DelayQueues, level_of, parse_delay_offsets, schedule
from orbitmq.broker.topics.table import TopicTable
from orbitmq.errors import CorruptRecord, HeaderError, Rejected, StoreUnavailable
from orbitmq.model.delay_levels import DELAY_LEVELS_TEXT, parse_delay_levels
from orbitmq.model.message import Host
from orbitmq.model.topic import AUTO_CREATE_TOPIC, SCHEDULE_TOPIC, DataVersion, TopicConfig
from orbitmq.store import Draft, ReadStatus, Store, StoreConfig
from orbitmq.store.sync.delivery_progress import DeliveryProgress
from orbitmq.testing import FakeClock
from orbitmq.testing.fake_disk import FakeDisk
from orbitmq.wire.messages.properties import parse_properties
from orbitmq.wire.messages.record import Record, iter_records

from ..parts import Registries, delay_queues, memory_store

Serve = Callable[..., None]


class World:
    """A store with a clock of its own, and the delay queues on it."""

    def __init__(self, path: Path, offsets: dict[int, int] | None = None) -> None:
        self.now_ms = 1_000_000
        config = StoreConfig(path=path, segment_size=1 << 20, consume_queue_units=100)
        self.store = Store.open(config, store_host=Host("127.0.0.1", 1), clock=lambda: self.now_ms)
        self.registries = Registries(TopicTable([TopicConfig(topic="t")]))
        self.queues = self.reopened(offsets)

    def reopened(self, *offsets: Any, levels: str = DELAY_LEVELS_TEXT) -> DelayQueues:
        """The queues as another start of the broker finds them."""
        table = parse_delay_levels(levels)
        return delay_queues(self.store, self.registries.topics, *offsets, levels=table, wall_ms=self.now_ms)

    def add(self, level: int, body: bytes, topic: str = "t", queue_id: int = 2) -> None:
        self.append(schedule(Draft(topic, queue_id, body), {"TAGS": "a"}, level))

    def append(self, waiting: Draft) -> None:
        self.store.append(waiting)
        self.queues.note_arrivals(self.now_ms)

    def delivered(self, queue_id: int = 2) -> list[Record]:
        found = self.store.read("t", queue_id, 0, 1000, 1 << 20)
        return list(iter_records(found.body)) if found.status is ReadStatus.FOUND else []


def bodies(records: list[Record]) -> list[bytes]:
    return [bytes(record.body) for record in records]


@pytest.fixture
def harness() -> Notes:
    return Notes()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.store.close()


def test_a_message_comes_when_its_level_says_and_in_the_order_of_its_level(world: World) -> None:
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


@pytest.mark.parametrize(
    ("at", "damage", "said"),
    [
        (4, b"\0\0\0\0", "magic"),
        (20, (2**40).to_bytes(8, "big"), f"its queue offset is {2**40}"),
        (20, bytes(8), "its queue offset is 0"),
        (0, b"\0\0\xff\xff", ""),
    ],
)
def test_a_damaged_message_of_a_level_is_passed_over_and_those_behind_it_come(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, at: int, damage: bytes, said: str, world: World
) -> None:
    for number in range(5):
        world.add(1, b"%d" % number)
    entries = world.store.queue_entries(SCHEDULE_TOPIC, 0, 2, 1)
    assert entries is not None
    (segment,) = (tmp_path / "commitlog").iterdir()
    with segment.open("r+b") as file:
        file.seek(entries[0][0] + at)
        file.write(damage)
    while world.queues.deliver_due(world.now_ms + 1_000):
        pass
    assert bodies(world.delivered()) == [b"0", b"1", b"3", b"4"]
    assert (world.queues.are_waiting, world.queues.undeliverable_count) == (False, 1)
    (record,) = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert record.startswith("delayed message 2 of level 1 cannot be delivered")
    assert said in record


def test_properties_that_cannot_be_stored_again_keep_no_delayed_message_behind_them(world: World) -> None:
    world.add(1, b"0")
    draft = schedule(Draft("t", 2, b"1"), {}, 1)
    world.append(draft._replace(properties=draft.properties + b"\xff\xfe\x01a\x02"))
    world.add(1, b"2")
    while world.queues.deliver_due(world.now_ms + 1_000):
        pass
    assert bodies(world.delivered()) == [b"0", b"2"]
    assert world.queues.undeliverable_count == 1


def test_what_waits_is_counted_by_level(world: World) -> None:
    for level in (1, 1, 3):
        world.add(level, b"later")
    assert {level: count for level, count in world.queues.backlog().items() if count} == {1: 2, 3: 1}
    world.queues.deliver_due(world.now_ms + 1_000)
    assert {level: count for level, count in world.queues.backlog().items() if count} == {3: 1}
    assert len(world.queues.backlog()) == 18


def test_a_delayed_message_leaves_the_checksum_of_its_waiting_record_behind(world: World) -> None:
    draft = schedule(Draft("t", 2, b"x"), {"TAGS": "a"}, 1)
    world.append(draft._replace(properties=draft.properties + b"__CRC32#\x010123456789\x02"))
    assert world.queues.deliver_due(world.now_ms + 1000) == 1
    assert "__CRC32#" not in parse_properties(world.delivered()[0].properties)


@pytest.mark.parametrize("is_allowed", [True, False])
def test_a_delayed_message_whose_topic_is_missing_is_not_dropped(is_allowed: bool, world: World) -> None:
    if is_allowed:
        world.registries.topics.update(TopicConfig(topic=AUTO_CREATE_TOPIC, write_queue_count=2), 1)
    world.add(1, b"orphan", topic="gone", queue_id=4)
    world.add(1, b"retry", topic="%RETRY%g", queue_id=0)
    world.add(1, b"fine")
    assert world.queues.deliver_due(world.now_ms + 1000) == 3
    orphan = world.store.message_at("gone", 4, 0)
    assert orphan is not None
    assert bytes(orphan.body) == b"orphan"
    assert bodies(world.delivered()) == [b"fine"]
    # Where no send may make the topic, its messages can be read once it is made.
    made, retry = world.registries.topics.get("gone"), world.registries.topics.get("%RETRY%g")
    assert (made and made.read_queue_count) == (5 if is_allowed else None)
    assert retry is not None
    assert retry.read_queue_count == 1


def test_a_delayed_message_waits_while_the_disk_refuses_its_missing_topic(world: World) -> None:
    world.registries.topics.update(TopicConfig(topic=AUTO_CREATE_TOPIC), 1)
    world.add(1, b"x", topic="gone")
    world.registries.disk_error = OSError(28, "No space left on device")
    with pytest.raises(Rejected):
        world.queues.deliver_due(world.now_ms + 1000)
    assert world.queues.are_waiting
    assert not world.queues.is_changed
    world.registries.disk_error = None
    assert world.queues.deliver_due(world.now_ms + 1000) == 1
    assert world.registries.topics.get("gone") is not None


def test_how_far_it_is_can_be_kept_while_delayed_messages_go_on_and_on(world: World) -> None:
    for number in range(10):
        world.add(1, b"x")
        world.now_ms += 1000
        world.queues.deliver_due(world.now_ms)
        if number == 6:
            world.store.flush()
    # The last ones are not on the disk and never will be while others come: those before them count.
    content = world.queues.take_durable(1)
    assert content is not None
    assert parse_delay_offsets(content)[0][1] == 7
    assert world.queues.is_changed
    assert world.queues.take_durable(1) is None


def test_one_level_that_is_busy_keeps_no_other_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delay, "SLICE_COUNT", 3)
    world = World(tmp_path)
    for _ in range(6):
        world.add(1, b"1 s")
    world.add(2, b"5 s")
    late_ms = world.now_ms + 5000
    assert [world.queues.deliver_due(late_ms) for _ in range(4)] == [3, 3, 1, 0]
    assert bodies(world.delivered()) == [b"1 s"] * 3 + [b"5 s"] + [b"1 s"] * 3
    world.store.close()


@pytest.mark.parametrize("ahead_ms", [3_600_000, -3_600_000])
def test_a_wall_clock_that_is_set_moves_no_deadline(ahead_ms: int, world: World) -> None:
    start_ms = world.now_ms
    world.now_ms += ahead_ms  # the store's clock alone
    world.store.append(schedule(Draft("t", 2, b"x"), {}, 1))
    world.queues.note_arrivals(start_ms + 10)
    world.now_ms = start_ms
    world.store.append(schedule(Draft("t", 2, b"y"), {}, 1))
    world.queues.note_arrivals(start_ms + 20)
    assert [world.queues.deliver_due(start_ms + after) for after in (1_009, 1_010, 1_019, 1_020)] == [0, 1, 0, 1]


def test_what_an_earlier_run_left_waits_no_longer_than_its_level_however_far_ahead_its_store_time_is(
    world: World,
) -> None:
    world.add(1, b"x")
    world.now_ms += 3_600_000
    world.add(1, b"an hour ahead")
    queues = delay_queues(world.store, world.registries.topics, wall_ms=1_000_400, now_ms=7)
    assert [queues.deliver_due(7 + after) for after in (599, 600, 999, 1_000)] == [0, 1, 0, 1]


def deliveries(queues: DelayQueues, times_ms: list[int]) -> list[int]:
    return [queues.deliver_due(time_ms) for time_ms in times_ms]


def test_a_message_keeps_the_time_that_the_settings_of_its_day_gave_it(world: World) -> None:
    world.add(2, b"5 s")
    queues = world.reopened(levels="1s 1h")
    assert deliveries(queues, [1_004_999, 1_005_000]) == [0, 1]


def test_a_message_waits_no_longer_than_a_new_one_of_its_level_by_settings_that_have_changed(world: World) -> None:
    world.add(18, b"2 h")
    queues = world.reopened(levels=" ".join(["1s"] * 18))
    assert deliveries(queues, [1_000_999, 1_001_000]) == [0, 1]


def test_messages_of_levels_that_are_gone_come_like_those_of_the_highest(world: World) -> None:
    world.add(4, b"30 s")
    world.add(18, b"2 h")
    queues = world.reopened(levels="1s 5s 60s")
    assert queues.backlog() == {1: 0, 2: 0, 3: 0, 4: 1, 18: 1}
    assert deliveries(queues, [1_029_999, 1_030_000, 1_059_999, 1_060_000]) == [0, 1, 0, 1]
    assert not queues.are_waiting


def test_how_far_a_level_was_delivered_is_kept_while_the_level_is_gone(world: World) -> None:
    for level in (1, 5):
        world.add(level, b"before")
    world.queues.deliver_due(world.now_ms + 60_000)
    world.store.flush()
    content = world.queues.take_durable(1)
    assert content is not None
    fewer = world.reopened(*parse_delay_offsets(content), levels="1s")
    world.add(1, b"after")
    fewer.note_arrivals(world.now_ms)
    assert fewer.deliver_due(world.now_ms + 60_000) == 1
    world.store.flush()
    content = fewer.take_durable(1)
    assert content is not None
    assert parse_delay_offsets(content)[0] == {1: 2, 5: 1}
    assert not world.reopened(*parse_delay_offsets(content)).are_waiting


def test_an_entry_that_cannot_be_a_time_leaves_the_store_time_and_the_delay(world: World) -> None:
    waiting = schedule(Draft("t", 2, b"x"), {}, 1)
    world.store.append(waiting._replace(tag_code=-(1 << 62)))  # an address in Java's extension files
    world.now_ms += 300
    assert deliveries(world.reopened(), [1_000_999, 1_001_000]) == [0, 1]


def test_the_offset_is_kept_only_when_what_was_delivered_is_on_the_disk(world: World) -> None:
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
    again = world.reopened(offsets, version)
    assert not again.are_waiting
    assert not world.reopened({1: 99, 77: 5}).are_waiting
    assert world.reopened({1: 0}).are_waiting


@each_case(
    ("3", 3), ("18", 18), ("99", 99), ("0", 0), ("-1", 0), ("x", 0), ("", 0), ("²", 0), ("9" * 5000, 999_999_999)
)
def test_a_level_is_a_number_above_zero(text: str, level: int) -> None:
    assert level_of({"DELAY": text}) == level


def test_a_damaged_file_is_refused() -> None:
    with pytest.raises(HeaderError):
        parse_delay_offsets(b'{"offsetTable":{"x":1}}')


@each_case(
    ("t", "123456788", True), ("t", "1234567890", False), ("t", "-1", False), ("t", "", False), ("a b", "2", False)
)
def test_a_message_goes_only_where_there_is_a_topic_and_a_queue_can_be(
    topic: str, queue_id: str, is_delivered: bool, world: World
) -> None:
    draft = schedule(Draft(topic, 2, b"x"), {}, 1)
    world.append(
        draft._replace(properties=draft.properties.replace(b"REAL_QID\x012", f"REAL_QID\x01{queue_id}".encode()))
    )
    before = world.store.queue_ids(topic)
    assert world.queues.deliver_due(world.now_ms + 1000) == 1
    assert world.store.queue_ids(topic) == ([int(queue_id) % 8] if is_delivered else before)
    assert not world.queues.are_waiting


def test_what_has_no_place_to_go_needs_no_sync_to_be_passed_over_for_good(world: World) -> None:
    world.add(1, b"orphan", topic="a b")
    world.queues.deliver_due(world.now_ms + 1000)
    assert world.store.durable_offset == 0
    content = world.queues.take_durable(1)
    assert content is not None
    assert parse_delay_offsets(content)[0] == {level: int(level == 1) for level in range(1, 19)}


def test_delivery_goes_on_behind_messages_that_the_log_does_not_have_any_more() -> None:
    disk = FakeDisk()
    store = memory_store(disk)
    for number in range(3):
        store.append(schedule(Draft("t", 0, bytes(40_000) + b"%d" % number), {}, 1))
    store.close()
    disk.remove(Path("/store/commitlog") / f"{0:020}")
    store = memory_store(disk)
    queues = delay_queues(store, Registries(TopicTable([TopicConfig(topic="t")])).topics)
    late_ms = FakeClock().advance(10_000)
    assert [queues.deliver_due(late_ms) for _ in range(3)] == [0, 2, 0]
    assert not queues.are_waiting
    assert [bytes(store.message_at("t", 0, offset).body[-1:]) for offset in (0, 1)] == [b"1", b"2"]


def test_offsets_of_a_file_lie_between_the_beginning_and_the_end(world: World) -> None:
    world.add(1, b"x")
    for offset, is_waiting in ((-5, True), (0, True), (1, False), (2, False)):
        assert world.reopened({1: offset}).are_waiting is is_waiting
    assert world.reopened({1: -5}).deliver_due(world.now_ms + 1000) == 1


def test_a_file_without_tables_knows_nothing() -> None:
    assert parse_delay_offsets(b"{}") == ({}, DataVersion())


class Notes:
    """Delay queues over a disk in memory that knows their notes, from one start to the next."""

    def __init__(self) -> None:
        self.disk, self.clock = FakeDisk(), FakeClock()
        self.open()

    def open(self, *offsets: dict[int, int]) -> None:
        self.store = memory_store(self.disk, self.clock)
        topics = Registries(TopicTable([TopicConfig(topic="t")])).topics
        self.queues = delay_queues(self.store, topics, *offsets, disk=self.disk, wall_ms=self.clock())

    def killed(self, *offsets: dict[int, int]) -> None:
        self.disk = self.disk.after_kill()
        self.open(*offsets)

    def add(self, *bodies: bytes, level: int = 1) -> None:
        for body in bodies:
            self.store.append(schedule(Draft("t", 0, body), {}, level))
        self.queues.note_arrivals(self.clock())

    def deliver(self) -> int:
        return self.queues.deliver_due(self.clock.advance(5_000))

    @property
    def waiting(self) -> dict[int, int]:
        return {level: count for level, count in self.queues.backlog().items() if count}


def test_a_killed_process_repeats_nothing_though_nothing_was_on_the_disk(harness: Notes) -> None:
    harness.add(b"a", b"b", level=1)
    harness.add(b"c", b"d", level=2)
    assert harness.deliver() == 4
    harness.add(b"e", level=2)
    assert harness.store.durable_offset == 0
    harness.killed()
    assert harness.waiting == {2: 1}
    assert harness.deliver() == 1
    assert bytes(harness.store.message_at("t", 0, 4).body) == b"e"
    # What the notes have told is kept in Java's file as well, with the next delivery at the latest.
    harness.store.flush()
    content = harness.queues.take_durable(1)
    assert content is not None
    assert {level: offset for level, offset in parse_delay_offsets(content)[0].items() if offset} == {1: 2, 2: 3}


def test_what_the_notes_tell_is_kept_in_the_file_without_another_delivery(harness: Notes) -> None:
    harness.add(b"a")
    harness.deliver()
    harness.killed()
    assert harness.queues.is_changed
    content = harness.queues.take_durable(1)
    assert content is not None
    assert parse_delay_offsets(content)[0][1] == 1
    harness.killed({1: 1})
    assert not harness.queues.is_changed


def test_a_file_that_is_ahead_of_the_notes_counts(harness: Notes) -> None:
    """A Java broker in between has delivered more, and knows nothing of notes."""
    harness.add(b"a", b"b", b"c")
    harness.deliver()
    note = bytes(harness.disk.files[Path("/store/delivered")].buffer)
    harness.add(b"d", b"e")
    harness.deliver()
    harness.disk.files[Path("/store/delivered")].buffer[:] = note
    harness.killed({1: 5})
    assert harness.waiting == {}
    harness.killed({1: 2})
    assert harness.waiting == {1: 2}


def test_a_note_whose_copy_a_power_cut_took_is_not_believed_when_other_messages_lie_there(harness: Notes) -> None:
    harness.add(b"a", b"b")
    harness.store.flush()
    before = {path: bytes(file.buffer) for path, file in harness.disk.files.items()}
    harness.deliver()
    for path, content in before.items():  # the power cut took the copies, and left their note
        harness.disk.files[path].buffer[:] = content
    harness.killed()
    assert harness.waiting == {1: 2}
    for _ in range(2):
        harness.store.append(Draft("t", 0, b"a"))  # they end where the copies ended, or behind
        harness.store.append(Draft("t", 0, b"longer than a copy, with its properties"))
    harness.killed()
    assert harness.waiting == {1: 2}
    assert harness.deliver() == 2


def test_a_copy_of_another_message_of_the_queue_proves_nothing(harness: Notes) -> None:
    harness.add(b"a", b"b")
    harness.deliver()
    notes = DeliveryProgress(harness.disk, Path("/store/delivered"))
    (note,) = notes.read()
    first = harness.store.message_at("t", 0, 0)
    assert first is not None
    for wrong in (
        note._replace(copy_at=first.physical_offset),
        note._replace(copy_at=note.waiting_at),
        note._replace(waiting_at=note.waiting_at + 1),
        note._replace(stored_at_ms=note.stored_at_ms + 1),
        note._replace(queue_offset=2),
        note._replace(copy_at=1 << 62),
    ):
        notes.write([wrong])
        harness.killed()
        assert harness.waiting == {1: 2}, wrong
        notes = DeliveryProgress(harness.disk, Path("/store/delivered"))
    notes.write([note, note._replace(level=40)])
    harness.killed()
    assert harness.waiting == {}
    assert 40 not in harness.queues.backlog()


def test_notes_that_cannot_be_read_repeat_messages_and_are_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(_self: DeliveryProgress) -> None:
        raise OSError(5, "Input/output error")

    harness = Notes()
    harness.add(b"a")
    harness.deliver()
    monkeypatch.setattr(DeliveryProgress, "read", refuse)
    harness.killed()
    assert harness.waiting == {1: 1}
    assert "some come again" in caplog.text


def test_a_note_of_a_damaged_message_does_not_prevent_a_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged(_store: Store, _topic: str, _queue_id: int, _queue_offset: int) -> None:
        raise CorruptRecord(0, "magic 0x00000000")

    harness = Notes()
    harness.add(b"a")
    harness.deliver()
    monkeypatch.setattr(Store, "message_at", damaged)
    harness.killed()
    assert harness.waiting == {1: 1}


def test_notes_that_the_disk_refuses_hold_no_delivery_up(caplog: pytest.LogCaptureFixture, harness: Notes) -> None:
    harness.add(b"a", b"b")
    harness.disk.failures["pwrite"] = OSError(28, "No space left on device")
    assert harness.deliver() == 2
    assert caplog.text.count("cannot be noted") == 1
    harness.disk.failures.clear()
    harness.add(b"c")
    harness.deliver()
    harness.queues.close()
    harness.killed()
    assert harness.waiting == {}


def test_what_was_sent_on_before_the_store_refused_is_noted(monkeypatch: pytest.MonkeyPatch, harness: Notes) -> None:
    harness.add(b"a", b"b")
    append, drafts = harness.store.append, []

    def once(draft: Draft) -> Any:
        drafts.append(draft)
        if len(drafts) > 1:
            raise StoreUnavailable("full")
        return append(draft)

    monkeypatch.setattr(harness.store, "append", once)
    with pytest.raises(StoreUnavailable):
        harness.deliver()
    harness.killed()
    assert harness.waiting == {1: 1}


def test_a_message_is_due_when_its_delay_has_passed_since_it_was_seen() -> None:
    deadlines = Deadlines(1_000, 0, now_ms=0)
    deadlines.note(1, 10)
    deadlines.note(1, 20)
    deadlines.note(3, 30)
    assert [deadlines.has_waited(0, now_ms) for now_ms in (1_009, 1_010)] == [False, True]
    assert [deadlines.has_waited(2, now_ms) for now_ms in (1_029, 1_030)] == [False, True]
    assert not deadlines.may_be_due(3, 10**15)


def test_what_was_left_may_be_due_immediately_and_has_waited_after_the_whole_delay() -> None:
    deadlines = Deadlines(1_000, 2, now_ms=100)
    assert deadlines.may_be_due(1, 100)
    assert [deadlines.was_left(offset) for offset in (0, 1, 2)] == [True, True, False]
    assert [deadlines.has_waited(1, now_ms) for now_ms in (1_099, 1_100)] == [False, True]
    assert not deadlines.has_waited(2, 1_100)


def test_arrivals_of_a_long_delay_are_told_apart_coarsely_and_never_early() -> None:
    grain_ms = 2_000
    deadlines = Deadlines(grain_ms * GRAIN_PARTS, 0, now_ms=0)
    for end, now_ms in ((1, 0), (2, 100), (3, grain_ms - 1), (4, grain_ms)):
        deadlines.note(end, now_ms)
    late_ms = grain_ms * GRAIN_PARTS
    assert [deadlines.may_be_due(offset, late_ms) for offset in range(4)] == [True, False, False, False]
    assert [deadlines.may_be_due(offset, late_ms + grain_ms) for offset in range(4)] == [True] * 4
