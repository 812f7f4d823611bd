from __future__ import annotations

import errno
from collections.abc import Callable
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest

from cases import each_case
from orbitmq.broker.timers import timers as module
from orbitmq.broker.timers.metrics import TimerMetrics
from orbitmq.broker.timers.timers import Timers
from orbitmq.broker.timers.times import wait_form
from orbitmq.broker.timers.waiting_template import WaitingTemplates
from orbitmq.broker.topics.missing import MissingTopics
from orbitmq.broker.topics.table import TopicTable
from orbitmq.errors import FileCut, StoreUnavailable
from orbitmq.model.message import Host
from orbitmq.model.topic import AUTO_CREATE_TOPIC, TIMER_TOPIC, TopicConfig
from orbitmq.store import Draft, ReadStatus, Store, StoreConfig
from orbitmq.store.timers.files import TimerFiles
from orbitmq.store.timers.log import TimerLog
from orbitmq.testing.fake_disk import FakeDisk
from orbitmq.wire.messages.properties import format_properties, parse_properties
from orbitmq.wire.messages.record import Record, iter_records, parse_record

from ..parts import DAMAGES, Registries, damage

ROOT = Path("/store")
START = 1_700_000_000_000


class World:
    """A store in memory with timers on it, and a clock that the test moves."""

    def __init__(self, disk: FakeDisk | None = None, now_ms: int = START, **settings: Any) -> None:
        self.now_ms = now_ms
        self.disk = disk or FakeDisk()
        self.settings = {"precision_ms": 1_000, "window_ms": 20_000, "slot_count": 60} | settings
        config = StoreConfig(path=ROOT, segment_size=65_536, consume_queue_units=100)
        self.store = Store.open(config, store_host=Host("127.0.0.1", 1), clock=lambda: self.now_ms, disk=self.disk)
        self.registries = Registries(TopicTable([TopicConfig(topic="t")]))
        self.files = TimerFiles(
            self.disk,
            ROOT,
            precision_ms=self.settings["precision_ms"],
            log_file_size=1 << 16,
            slot_count=self.settings["slot_count"],
        )
        self.files.recover(self.store.max_physical_offset, self.store.max_offset(TIMER_TOPIC, 0), self._queue_offset)
        self.timers = Timers(
            self.store,
            self.files,
            MissingTopics(self.registries.topics),
            TimerMetrics(),
            roll_window_ms=self.settings["window_ms"],
            wall_ms=self.now_ms,
        )

    def _queue_offset(self, offset: int, size: int) -> int | None:
        encoded = self.store.record_at(offset, size)
        record = None if encoded is None else parse_record(encoded)
        return record.queue_offset if isinstance(record, Record) else None

    def add(self, body: bytes, delay_ms: int, topic: str = "t", **properties: str) -> None:
        due_ms = (self.now_ms + delay_ms - 1) // 1_000 * 1_000
        self.store.append(wait_form(Draft(topic, 2, body, flag=7), properties, due_ms))

    def add_raw(self, properties: dict[str, str]) -> None:
        self.store.append(Draft(TIMER_TOPIC, 0, b"raw", format_properties(properties)))

    def take_back(self, key: str, delay_ms: int) -> None:
        self.add(b"0", delay_ms, TIMER_DEL_UNIQKEY=f"t+{key}", UNIQ_KEY=key)

    def work(self) -> None:
        """Put everything into the wheel, and deliver all that is due."""
        while self.timers.enqueue(self.now_ms) | self.timers.deliver_due(self.now_ms):
            pass

    def pass_time(self, by_ms: int) -> list[bytes]:
        """Go on step by step; return what came."""
        before = len(self.delivered())
        until = self.now_ms + by_ms
        while self.now_ms < until:
            self.now_ms = min(self.now_ms + 1_000, until)
            self.work()
        return [bytes(record.body) for record in self.delivered()[before:]]

    def delivered(self, topic: str = "t") -> list[Record]:
        found = self.store.read(topic, 2, 0, 10_000, 1 << 24)
        return list(iter_records(found.body)) if found.status is ReadStatus.FOUND else []

    def save(self) -> None:
        self.store.flush()
        snapshot = self.timers.snapshot(self.now_ms)
        for file in self.files.unsynced():
            file.sync()
        self.files.write_checkpoint(snapshot.checkpoint)
        self.timers.note_saved(snapshot, self.timers.delivered_count)

    def killed(self, now_ms: int | None = None) -> World:
        """The world of another start on the same files."""
        self.disk.locked.clear()
        return World(self.disk, self.now_ms if now_ms is None else now_ms, **self.settings)


@pytest.fixture
def world() -> World:
    return World()


def test_a_message_comes_at_the_end_of_its_step_and_not_before(world: World) -> None:
    world.add(b"5 s", 5_000)
    world.add(b"2 s", 2_000)
    world.add(b"also 2 s", 1_500)
    world.work()
    assert world.timers.pending_count == 3
    world.now_ms += 1_999
    world.work()
    assert world.delivered() == []
    assert world.pass_time(1) == [b"2 s", b"also 2 s"]
    assert world.pass_time(2_999) == []
    assert world.pass_time(1) == [b"5 s"]
    assert world.timers.pending_count == 0


def test_a_message_comes_back_as_it_was_with_its_way_among_its_properties(world: World) -> None:
    world.add(b"x", 2_000, TAGS="a", TIMER_DELAY_MS="2000")
    world.work()
    world.pass_time(2_000)
    (record,) = world.delivered()
    assert (record.topic, record.queue_id, record.flag) == ("t", 2, 7)
    assert parse_properties(record.properties) == {
        "TAGS": "a", "TIMER_DELAY_MS": "2000", "TIMER_OUT_MS": str(START + 1_000), "REAL_TOPIC": "t", "REAL_QID": "2",
        "TIMER_ENQUEUE_MS": str(START), "TIMER_DEQUEUE_MS": str(START + 2_000),
    }  # fmt: skip


def test_a_message_that_is_due_before_it_came_into_the_wheel_is_delivered_immediately(world: World) -> None:
    world.add(b"late", 2_000)
    world.now_ms += 10_000
    world.work()
    (record,) = world.delivered()
    assert parse_properties(record.properties)["TIMER_ENQUEUE_MS"] == str((1 << 63) - 1)
    assert world.files.log.is_empty
    assert world.timers.metrics.counts == {}


def test_a_step_may_have_more_messages_than_a_slice(world: World) -> None:
    for number in range(3 * module.SLICE_COUNT):
        world.add(b"%d" % number, 2_000)
    world.work()
    assert world.pass_time(2_000) == [b"%d" % number for number in range(3 * module.SLICE_COUNT)]


@pytest.mark.parametrize("delay_ms", [20_001, 25_000, 40_000, 55_000, 100_000])
def test_what_is_beyond_the_window_waits_in_several_turns_and_comes_once_in_time(delay_ms: int, world: World) -> None:
    world.add(b"far", delay_ms)
    world.work()
    due_at = START + -(-delay_ms // 1_000) * 1_000
    assert world.pass_time(due_at - 1_000 - START) == []
    assert world.pass_time(1_000) == [b"far"]
    turns = int(parse_properties(world.delivered()[0].properties).get("TIMER_ROLL_TIMES", "0"))
    assert turns >= (delay_ms - 1_000) // 20_000
    assert world.timers.metrics.counts == {"t": 0}


@pytest.mark.parametrize("delay_ms", [2_000, 30_000])
def test_a_message_that_is_taken_back_does_not_come_and_others_do(delay_ms: int, world: World) -> None:
    world.add(b"kept", delay_ms, UNIQ_KEY="A")
    world.add(b"taken back", delay_ms, UNIQ_KEY="B")
    world.add(b"of another topic", delay_ms, topic="u", UNIQ_KEY="B")
    world.take_back("B", delay_ms)
    world.work()
    assert world.pass_time(delay_ms) == [b"kept"]
    assert len(world.delivered("u")) == 1
    assert (world.timers.metrics.counts, world.timers.pending_count) == ({"t": 0, "u": 0}, 0)


def test_what_takes_back_a_message_that_is_not_there_leaves_no_trace_in_the_counts(world: World) -> None:
    world.take_back("nobody", 2_000)
    world.work()
    assert world.timers.metrics.counts == {"t": -1}
    assert world.pass_time(2_000) == []
    assert world.timers.metrics.counts == {"t": 0}
    world.take_back("too late", 1_000)
    world.now_ms += 5_000
    world.work()
    assert world.delivered() == []


@each_case({}, {"REAL_TOPIC": "t", "REAL_QID": "0", "TIMER_OUT_MS": "x"}, {"TIMER_OUT_MS": "5", "REAL_QID": "0"})
def test_a_message_without_time_or_topic_stops_nothing(properties: dict[str, str], world: World) -> None:
    world.add_raw(properties)
    world.add(b"next", 2_000)
    world.work()
    assert world.pass_time(2_000) == [b"next"]


def test_a_message_whose_queue_is_none_stays_in_the_log(world: World) -> None:
    world.add_raw({"TIMER_OUT_MS": str(START + 1_000), "REAL_TOPIC": "t", "REAL_QID": "x"})
    world.add(b"next", 2_000)
    world.work()
    assert world.pass_time(2_000) == [b"next"]


def test_a_topic_that_is_gone_is_made_again(world: World) -> None:
    world.registries.topics.update(TopicConfig(topic=AUTO_CREATE_TOPIC), 1)
    world.add(b"x", 2_000, topic="gone")
    world.work()
    world.pass_time(2_000)
    assert world.registries.topics.get("gone") is not None
    assert len(world.delivered("gone")) == 1


def test_messages_of_one_template_go_to_a_queue_that_consumers_read(world: World) -> None:
    for number in range(3):
        world.add(b"%d" % number, 2_000, UNIQ_KEY=f"K{number}")
    world.work()
    world.registries.topics.update(TopicConfig(topic="t", read_queue_count=2, write_queue_count=2), 1)
    world.pass_time(2_000)
    assert (world.store.max_offset("t", 0), world.store.max_offset("t", 2)) == (3, 0)


def test_a_store_that_takes_nothing_loses_nothing(monkeypatch: pytest.MonkeyPatch, world: World) -> None:
    for number in range(5):
        world.add(b"%d" % number, 2_000)
    world.work()
    append, room = world.store.append, [3]

    def refuse(draft: Draft) -> Any:
        if not room[0]:
            raise StoreUnavailable("full")
        room[0] -= 1
        return append(draft)

    monkeypatch.setattr(world.store, "append", refuse)
    world.now_ms += 2_000
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            world.work()
    room[0] = 100
    world.work()
    assert [bytes(record.body) for record in world.delivered()] == [b"0", b"1", b"2", b"3", b"4"]


def test_properties_that_have_no_room_for_the_way_are_delivered_without_it(world: World) -> None:
    world.add(b"x", 2_000, A="a" * (32_767 - 75))
    world.work()
    assert world.pass_time(2_000) == [b"x"]
    assert "TIMER_DEQUEUE_MS" not in parse_properties(world.delivered()[0].properties)


@pytest.mark.parametrize("saved_after", [None, 0, 3_000, 7_000])
def test_after_a_kill_nothing_is_lost_and_only_what_came_since_the_checkpoint_comes_again(
    saved_after: int | None, world: World
) -> None:
    for number in range(10):
        world.add(b"%d" % number, 2_000 + number * 1_000)
    world.work()
    if saved_after is not None:
        world.pass_time(saved_after)
        world.save()
    world.pass_time(8_000 - (saved_after or 0))
    before = [bytes(record.body) for record in world.delivered()]
    assert before == [b"%d" % number for number in range(7)]
    world = world.killed()
    world.work()
    world.pass_time(4_000)
    after = [bytes(record.body) for record in world.delivered()][len(before) :]
    again = {None: 0, 0: 0, 3_000: 2, 7_000: 6}[saved_after]
    assert after == [b"%d" % number for number in range(again, 10)]


def test_a_broker_that_was_stopped_for_long_delivers_everything_first(world: World) -> None:
    for number in range(3):
        world.add(b"%d" % number, 2_000 + number * 9_000)
    world.work()
    world.save()
    world = world.killed(START + 10_000_000)
    world.add(b"new", 2_000)
    world.work()
    assert [bytes(record.body) for record in world.delivered()] == [b"0", b"1", b"2"]
    assert world.pass_time(2_000) == [b"new"]


def test_the_wheel_takes_nothing_for_a_slot_that_is_in_use() -> None:
    world = World(window_ms=50_000, slot_count=30)
    world.add(b"old", 5_000)
    world.work()
    world.save()
    world = world.killed(START + 40_000)
    world.timers.read_ms = START
    world.add(b"new", 40_000)
    assert not world.timers.enqueue(world.now_ms)
    world.work()
    assert [bytes(record.body) for record in world.delivered()] == [b"old"]
    assert world.pass_time(40_000) == [b"new"]


def test_a_clock_that_is_set_back_a_little_stands_still_and_one_that_is_set_back_far_is_believed(world: World) -> None:
    world.work()
    world.pass_time(2_000)
    world.now_ms -= 30_000
    world.add(b"soon", 2_000)
    world.work()
    assert [bytes(record.body) for record in world.delivered()] == [b"soon"]
    world.now_ms -= 100_000
    world.add(b"later", 2_000)
    world.work()
    assert world.timers.read_ms < START
    assert world.pass_time(2_000) == [b"later"]


def test_a_start_with_a_clock_that_was_set_back_begins_now(caplog: pytest.LogCaptureFixture, world: World) -> None:
    world.add(b"x", 2_000)
    world.work()
    world.pass_time(5_000)
    world.save()
    assert world.killed(START - 100_000).timers.read_ms == START - 100_000
    assert "set back" in caplog.text
    assert world.killed(START - 1_000).timers.read_ms == START + 5_000


Damage = Callable[[World], None]


def wheel_leads_astray(world: World) -> None:
    slot = world.files.wheel.slot(START + 4_000)
    assert slot is not None
    world.files.wheel.put(slot._replace(last=slot.last + 1))


def log_is_overwritten(world: World) -> None:
    buffer = world.disk.files[ROOT / "timerlog" / ("0" * 20)].buffer
    buffer[0 : world.files.log.end] = b"\1" * world.files.log.end


def unit_leads_astray(world: World) -> None:
    world.disk.files[ROOT / "timerlog" / ("0" * 20)].buffer[28 + 52 : 36 + 52] = (1).to_bytes(8, "big")


def wheel_is_cut(world: World) -> None:
    world.disk.files[ROOT / "timerwheel"].was_cut = True


@pytest.mark.parametrize("damage", [wheel_leads_astray, log_is_overwritten, unit_leads_astray, wheel_is_cut])
def test_damage_while_running_is_mended_from_the_queue_and_nothing_comes_twice(damage: Damage, world: World) -> None:
    world.add(b"before", 2_000)
    for number in range(3):
        world.add(b"%d" % number, 5_000)
    world.work()
    world.pass_time(3_000)
    damage(world)
    assert world.pass_time(3_000) == [b"0", b"1", b"2"]
    assert [bytes(record.body) for record in world.delivered()] == [b"before", b"0", b"1", b"2"]


def test_damaged_files_stay_while_a_snapshot_of_them_is_kept_and_are_rebuilt_then(world: World) -> None:
    """A checkpoint that is written after the rebuild has begun would count for the new files."""
    world.add(b"0", 5_000)
    world.work()
    world.timers.is_being_saved = True
    wheel_is_cut(world)
    with pytest.raises(FileCut):
        world.timers.deliver_due(world.now_ms)
    with pytest.raises(FileCut):
        world.timers.enqueue(world.now_ms)
    assert (world.files.aside, world.timers.is_changed, world.timers.is_waiting) == ([], False, True)
    world.timers.is_being_saved = False
    assert world.pass_time(6_000) == [b"0"]
    assert world.files.aside


def test_files_that_the_disk_does_not_move_aside_are_moved_later(world: World) -> None:
    """A wheel that is closed would look like an empty one, and its messages like delivered ones."""
    world.add(b"0", 5_000)
    world.work()
    wheel_is_cut(world)
    world.disk.failures["move"] = OSError(errno.EIO, "input/output error")
    for work in (world.timers.deliver_due, world.timers.deliver_due, world.timers.enqueue):
        with pytest.raises(OSError, match="input/output"):
            work(world.now_ms)
    world.disk.failures.clear()
    assert world.pass_time(6_000) == [b"0"]


def test_a_message_that_the_log_does_not_have_any_more_is_counted_and_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, world: World
) -> None:
    world.add(b"gone", 2_000)
    world.add(b"there", 2_000)
    world.work()
    gone = world.files.log.unit(0)
    assert gone is not None
    parsed_at = world.store.parsed_at
    monkeypatch.setattr(
        world.store, "parsed_at", lambda at, size=None: None if at == gone.physical_offset else parsed_at(at, size)
    )
    monkeypatch.setattr(Store, "min_physical_offset", property(lambda self: gone.physical_offset + 1))
    assert world.pass_time(2_000) == [b"there"]
    assert world.timers.lost_count == 1


def test_messages_that_were_deleted_before_they_were_looked_at_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.add(b"x", 2_000)
    world.files.queue_offset = 1
    world.work()
    read = world.store.read("nobody", 0, 0)._replace(status=ReadStatus.OFFSET_TOO_SMALL, next_offset=5, max_offset=5)
    monkeypatch.setattr(world.store, "read", lambda *place: read)
    assert world.timers.enqueue(world.now_ms)
    assert (world.timers.lost_count, world.files.queue_offset) == (4, 5)


def test_a_queue_that_ends_before_what_was_read_is_read_on_from_its_end(world: World) -> None:
    world.add(b"x", 2_000)
    world.files.queue_offset = 9
    assert not world.timers.enqueue(world.now_ms)
    assert world.files.queue_offset == 1


def test_there_is_something_to_save_when_something_was_read_or_delivered(world: World) -> None:
    assert not world.timers.is_changed
    world.add(b"x", 2_000)
    assert world.timers.queue_behind == 1
    world.work()
    assert world.timers.is_changed
    assert world.timers.is_waiting
    world.save()
    assert not world.timers.is_changed
    world.pass_time(2_000)
    assert world.timers.is_changed
    assert world.timers.slot_count(START) == 0


def test_without_a_checkpoint_no_timer_is_early(world: World) -> None:
    world.add(b"15 s", 15_000)
    world.work()
    world.add(b"5 s", 5_000)
    world = world.killed()
    assert world.pass_time(4_000) == []
    assert world.pass_time(2_000) == [b"5 s"]
    assert world.pass_time(10_000) == [b"15 s"]


def test_what_was_due_immediately_is_stored_again_when_a_power_cut_took_it(world: World) -> None:
    """The unit of the message behind it may have survived."""
    world.add(b"late", 1_000)
    world.now_ms += 5_000
    world.add(b"next", 10_000)
    world.store.flush()
    world.work()
    assert [bytes(record.body) for record in world.delivered()] == [b"late"]
    disk = world.disk.after_kill()
    for path, file in world.disk.files.items():
        if path.parent.name == "commitlog":
            assert file.durable is not None
            disk.write(path, file.durable)
    world = World(disk, world.now_ms)
    assert world.delivered() == []
    world.work()
    assert [bytes(record.body) for record in world.delivered()] == [b"late"]
    assert world.pass_time(11_000) == [b"next"]


def test_what_is_in_the_wheel_is_not_put_there_again_after_a_kill(world: World) -> None:
    world.add(b"1", 5_000)
    world.save()
    world.add(b"2", 5_000)
    world.work()
    world = world.killed()
    world.work()
    assert world.timers.pending_count == 2
    assert world.pass_time(6_000) == [b"1", b"2"]


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_message_among_the_timers_is_left_out_and_those_behind_it_come(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, name: str, world: World
) -> None:
    for number in range(5):
        world.add(b"%d" % number, 3_000)
    damage(monkeypatch, world.store, TIMER_TOPIC, 2, name)
    assert world.pass_time(5_000) == [b"0", b"1", b"3", b"4"]
    assert world.timers.lost_count == 1
    (record,) = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert record.startswith(f"timer 2 of {TIMER_TOPIC} cannot be read and is left out")


def test_a_checkpoint_that_was_overwritten_with_text_loses_no_timer(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.add(b"delivered", 2_000)
    world.add(b"waits", 30_000)
    assert world.pass_time(5_000) == [b"delivered"]
    world.save()
    world.disk.write(ROOT / "config" / "timercheck", b"what anybody may write into a file " * 3)
    again = world.killed()
    assert "tells of more messages than the CommitLog has bytes" in caplog.text
    assert b"waits" in again.pass_time(40_000)


def _played(seed: int, *, log_file_size: int) -> tuple[dict[str, bytes], object]:
    """Play messages of all kinds to timers; return the bytes of all files, and what was counted."""
    random, world = Random(seed), World()
    world.registries.topics.update(TopicConfig(topic="u"), 0)
    world.files.log = TimerLog(world.disk, ROOT / "timerlog", log_file_size)
    for number in range(120):
        kind, topic = random.random(), random.choice("ttu")
        if kind < 0.05:
            world.take_back(f"K{number - 1}", random.randrange(1, 4_000))
        elif kind < 0.1:
            world.add(b"far", random.randrange(20_000, 90_000), UNIQ_KEY=f"K{number}")
        elif kind < 0.13:
            world.add_raw({"UNIQ_KEY": f"K{number}", "REAL_TOPIC": "t"})
        elif kind < 0.16:
            world.add(b"late", -5_000, UNIQ_KEY=f"K{number}")
        else:
            world.add(
                b"%d" % number, random.randrange(1, 3_000), topic, UNIQ_KEY=f"K{number}", TAGS=random.choice("ab")
            )
        if random.random() < 0.1:
            world.work()
            world.now_ms += random.randrange(1_500)
    world.save()
    world.pass_time(200_000)
    metrics, timers = world.timers.metrics, world.timers
    counts = metrics.format(), metrics.enqueued, metrics.dequeued, timers.pending_count, timers.delivered_count
    delays = {topic: (found.total, found.cumulative()) for topic, found in metrics.delays.items()}
    return {str(path): bytes(file.buffer) for path, file in world.disk.files.items()}, (counts, delays)


@each_case(*product(range(12), [7 * 52, 1 << 16]))
def test_with_templates_all_files_and_counts_are_as_without_them(
    seed: int, log_file_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_templates = _played(seed, log_file_size=log_file_size)
    found = []
    monkeypatch.setattr(WaitingTemplates, "find", lambda _self, properties: found.append(properties))
    assert _played(seed, log_file_size=log_file_size) == with_templates
    assert len(found) > 200


def test_a_disk_that_is_full_in_the_middle_of_a_slice_puts_none_twice_and_loses_none() -> None:
    world = World()
    world.files.log = TimerLog(world.disk, ROOT / "timerlog", 7 * 52)
    for number in range(20):
        world.add(b"%d" % number, 3_000, UNIQ_KEY=f"K{number}")
    world.files.wheel.open()
    room, extend = [2], world.files.log._extend

    def extended() -> Any:
        if not room[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        room[0] -= 1
        return extend()

    world.files.log._extend = extended  # type: ignore[method-assign]
    with pytest.raises(OSError, match="No space"):
        world.timers.enqueue(world.now_ms)
    assert world.files.queue_offset == world.timers.pending_count == 12
    room[0] = 10
    assert world.pass_time(5_000) == [b"%d" % number for number in range(20)]
