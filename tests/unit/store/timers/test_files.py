from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from cases import each_case
from orbitmq.errors import StoreError
from orbitmq.store.timers.checkpoint import TimerCheckpoint, format_timer_checkpoint_file
from orbitmq.store.timers.files import DamagedTimers, TimerFiles
from orbitmq.store.timers.units import UNIT_SIZE
from orbitmq.store.timers.wheel import SLOT_SIZE, Slot
from orbitmq.testing.fake_disk import FakeDisk

ROOT = Path("/store")
LOG_FILE = ROOT / "timerlog" / ("0" * 20)
WHEEL = ROOT / "timerwheel"
COMMIT_LOG_END = 1 << 40


class World:
    """Timers' files on a disk; message n of the queue is the ten bytes at 10 * n of the CommitLog."""

    def __init__(self, disk: FakeDisk | None = None, precision_ms: int = 1_000, commit_log_end: int = COMMIT_LOG_END):
        self.disk = disk or FakeDisk()
        self.files = TimerFiles(self.disk, ROOT, precision_ms=precision_ms, log_file_size=5 * UNIT_SIZE, slot_count=20)
        self.files.recover(
            commit_log_end,
            commit_log_end // 10,
            lambda offset, size: offset // 10 if offset < commit_log_end else None,
        )

    def put(self, number: int, due_ms: int, magic: int = 1) -> None:
        self.files.put(due_ms, 1_000, magic, (number * 10, 10, 7), -1 if magic & 4 else 1)
        self.files.queue_offset = number + 1

    def due(self, due_ms: int) -> list[int]:
        slot = self.files.wheel.slot(due_ms)
        return [] if slot is None else [unit.physical_offset // 10 for _, unit in self.files.chain(slot)][::-1]

    def save(self, read_ms: int = 1_000) -> TimerCheckpoint:
        checkpoint = self.files.next_checkpoint(read_ms, 77)
        for file in self.files.unsynced():
            file.sync()
        self.files.write_checkpoint(checkpoint)
        self.files.checkpoint_written(checkpoint)
        return checkpoint

    def reopened(self, commit_log_end: int = COMMIT_LOG_END, precision_ms: int = 1_000) -> World:
        return World(self.disk, precision_ms, commit_log_end)


def filled(count: int = 12, saved: int | None = None) -> World:
    world = World()
    for number in range(count):
        world.put(number, 5_000 + number % 3 * 1_000)
        if number + 1 == saved:
            world.save()
    return world


def whole(world: World, count: int = 12) -> bool:
    """Return True if every slot has its messages in order."""
    return [world.due(5_000 + third * 1_000) for third in range(3)] == [
        list(range(third, count, 3)) for third in range(3)
    ]


@pytest.fixture
def world() -> World:
    return filled(saved=12)


def test_nothing_is_made_on_the_disk_before_the_first_timer() -> None:
    world = World()
    assert world.disk.files == {}
    assert (world.files.queue_offset, world.files.pending_count, world.files.earliest_ms) == (0, 0, None)


def test_a_slot_has_its_messages_in_the_order_in_which_they_came() -> None:
    world = filled()
    assert whole(world)
    assert world.files.wheel.slot(5_000) == Slot(5_000, 0, 2 * 260 + 52, 4)


@each_case(None, 1, 5, 12)
def test_after_a_kill_everything_is_there_and_the_queue_is_read_on_from_the_checkpoint(saved: int | None) -> None:
    world = filled(saved=saved).reopened()
    assert whole(world)
    assert world.files.queue_offset == (saved or 0)
    assert [world.files.is_placed(number * 10) for number in range(saved or 0, 13)] == [True] * (12 - (saved or 0)) + [
        False
    ]
    assert (world.files.pending_count, world.files.earliest_ms) == (12, 5_000)
    assert world.files.aside == []
    world.put(12, 5_000)
    assert world.due(5_000) == [0, 3, 6, 9, 12]


@each_case(*range(30))
def test_after_a_power_cut_what_was_saved_is_there_and_what_is_there_is_known(seed: int) -> None:
    world = filled(saved=7)
    world = World(world.disk.after_power_cut(Random(seed)))
    assert world.files.queue_offset == 7, seed
    for number in range(7, 12):
        if not world.files.is_placed(number * 10):
            world.put(number, 5_000 + number % 3 * 1_000)
    assert whole(world), seed


def test_a_message_that_takes_another_back_counts_less() -> None:
    world = World()
    world.put(0, 5_000)
    world.put(1, 5_000, magic=5)
    assert world.files.wheel.slot(5_000) == Slot(5_000, 0, 52, 0)
    assert world.reopened().files.pending_count == 0


Damage = Callable[[World], None]


def wheel_is_zeros(world: World) -> None:
    world.disk.files[WHEEL].buffer[:] = bytes(len(world.disk.files[WHEEL].buffer))


def wheel_is_gone(world: World) -> None:
    del world.disk.files[WHEEL]


def wheel_is_short(world: World) -> None:
    world.disk.files[WHEEL].buffer = world.disk.files[WHEEL].buffer[:100]


def wheel_leads_elsewhere(world: World) -> None:
    world.files.wheel.put(Slot(5_000, 0, 104, 4))


def wheel_leads_behind_the_log(world: World) -> None:
    world.files.wheel.put(Slot(5_000, 0, 10_400, 4))


def wheel_has_lost_a_slot(world: World) -> None:
    at = 6 * SLOT_SIZE
    world.disk.files[WHEEL].buffer[at : at + SLOT_SIZE] = bytes(SLOT_SIZE)


@pytest.mark.parametrize(
    "damage",
    [
        wheel_is_zeros,
        wheel_is_gone,
        wheel_is_short,
        wheel_leads_elsewhere,
        wheel_leads_behind_the_log,
        wheel_has_lost_a_slot,
    ],
)
def test_a_damaged_wheel_is_rebuilt_from_the_log(damage: Damage, world: World) -> None:
    damage(world)
    world = world.reopened()
    assert whole(world)
    assert world.files.queue_offset == 12


def log_is_gone(world: World) -> None:
    for path in [path for path in world.disk.files if path.parent.name == "timerlog"]:
        del world.disk.files[path]


def log_is_zeros(world: World) -> None:
    file = world.disk.files[LOG_FILE]
    file.buffer[:] = bytes(len(file.buffer))


def log_has_a_hole(world: World) -> None:
    world.disk.files[LOG_FILE].buffer[52:104] = bytes(52)


def log_lacks_a_file(world: World) -> None:
    del world.disk.files[ROOT / "timerlog" / f"{260:020d}"]


def log_is_short(world: World) -> None:
    path = ROOT / "timerlog" / f"{520:020d}"
    world.disk.files[path].buffer = world.disk.files[path].buffer[:100]


def log_is_cut(world: World) -> None:
    path = ROOT / "timerlog" / f"{520:020d}"
    world.disk.files[path].buffer[104:] = bytes(156)


def log_lacks_its_last_file(world: World) -> None:
    del world.disk.files[ROOT / "timerlog" / f"{520:020d}"]


def units_have_other_times(world: World) -> None:
    world.disk.files[LOG_FILE].buffer[16:24] = (1_000_000).to_bytes(8, "big")
    wheel_is_zeros(world)


@each_case(
    log_is_gone,
    log_has_a_hole,
    log_lacks_a_file,
    log_is_short,
    log_is_cut,
    log_lacks_its_last_file,
    units_have_other_times,
)
def test_where_the_log_is_damaged_both_are_moved_aside_and_the_queue_is_read_again(damage: Damage) -> None:
    world = filled(saved=12)
    damage(world)
    world = world.reopened()
    files = world.files
    assert (files.queue_offset, files.delivered_offset, files.delivered_ms) == (0, 12, 1_000)
    assert files.aside
    assert all(path.parent == ROOT / "quarantine" for path in files.aside)
    assert files.is_behind
    for number in range(12):
        world.put(number, 5_000 + number % 3 * 1_000)
    assert whole(world)
    assert not files.is_behind


def test_while_the_queue_is_read_again_the_checkpoint_goes_on_to_say_what_was_delivered(world: World) -> None:
    log_has_a_hole(world)
    world = world.reopened()
    world.put(0, 5_000)
    checkpoint = world.save(read_ms=4_000)
    assert checkpoint[:4] == (1_000, 52, 1, 12)
    files = world.reopened().files
    assert (files.queue_offset, files.delivered_offset, files.delivered_ms) == (1, 12, 1_000)


def everything_is_gone(world: World) -> None:
    log_is_gone(world)
    wheel_is_gone(world)


@each_case(log_is_gone, log_is_zeros, everything_is_gone)
def test_a_rebuild_that_a_crash_ends_begins_again(damage: Damage) -> None:
    """The checkpoint of the files before must not count for those that are being made."""
    world = filled(2, saved=2)
    damage(world)
    world = world.reopened()
    world.put(0, 5_000)
    # What a power cut leaves of files that were never synced.
    log_is_zeros(world)
    wheel_is_zeros(world)
    world = world.reopened()
    assert (world.files.queue_offset, world.files.delivered_offset) == (0, 2)
    assert not world.files.is_placed(0)


def test_a_rebuilt_wheel_is_on_the_disk_before_it_counts(world: World) -> None:
    """The checkpoint covers it: a power cut must not take slots that count nothing together."""
    wheel_is_gone(world)
    file = world.reopened().disk.files[WHEEL]
    assert file.durable == bytes(file.buffer)


def test_another_precision_rebuilds_everything_from_the_queue() -> None:
    world = World(precision_ms=100)
    for number, due_ms in enumerate((5_000, 5_100, 5_200)):
        world.put(number, due_ms)
    world.save()
    world = world.reopened(precision_ms=1_000)
    assert (world.files.queue_offset, len(world.files.aside)) == (0, 2)


def test_units_whose_messages_the_commit_log_has_lost_are_cut_off() -> None:
    world = filled(saved=5).reopened(commit_log_end=90)
    assert world.files.placed_end == 9
    assert whole(world, 9)


def test_a_unit_that_was_cut_off_stays_away_after_a_power_cut() -> None:
    """By then the CommitLog may have another message at the place where the unit leads."""
    world = filled(4, saved=2)
    for file in world.files.unsynced():
        file.sync()
    world = world.reopened(commit_log_end=30)
    file = world.disk.files[LOG_FILE]
    assert file.durable == bytes(file.buffer)


def test_a_log_whose_first_file_never_reached_the_disk_is_rebuilt() -> None:
    world = filled()
    del world.disk.files[LOG_FILE]
    world = world.reopened()
    assert world.files.queue_offset == 0
    assert world.files.aside


def test_a_checkpoint_covers_no_message_that_the_queue_has_lost() -> None:
    """Those that come to its place, from a new master, are other ones."""
    world = filled(4)
    world.files.queue_offset = 7  # the last ones were due when they were read, and have no units
    world.save()
    files = world.reopened(commit_log_end=50).reopened().files
    assert (files.queue_offset, files.delivered_offset, files.aside) == (5, 5, [])


def test_slots_whose_units_never_reached_the_disk_are_free_again() -> None:
    world = World()
    world.put(0, 5_000_000)
    world.disk.files[LOG_FILE].buffer[:] = bytes(5 * UNIT_SIZE)
    world = world.reopened()
    assert world.files.wheel.slot(5_000_000) is None


def test_slots_are_free_again_when_the_logs_file_and_the_checkpoint_never_reached_the_disk() -> None:
    world = World()
    world.put(0, 5_000_000)
    del world.disk.files[LOG_FILE]
    world = world.reopened()
    assert world.files.wheel.slot(5_000_000) is None
    world.put(0, 5_000_000)
    assert world.due(5_000_000) == [0]


def test_a_checkpoint_with_units_and_without_their_messages_is_damage_and_doubles_no_timer() -> None:
    world = filled()
    checkpoint = world.save()
    world.disk.write(
        ROOT / "config" / "timercheck",
        format_timer_checkpoint_file(checkpoint._replace(queue_offset=0, master_queue_offset=0)),
    )
    world = world.reopened()
    assert world.files.aside
    assert (world.files.queue_offset, world.files.pending_count) == (0, 0)


def test_two_slots_that_count_nothing_together_are_missed(world: World) -> None:
    before = bytes(world.disk.files[WHEEL].buffer)
    world.put(12, 8_000)
    world.put(13, 9_000, magic=5)
    world.disk.files[WHEEL].buffer[:] = before
    world = world.reopened()
    assert (world.due(8_000), world.due(9_000)) == ([12], [13])


def test_a_log_that_knew_of_what_the_commit_log_has_lost_is_rebuilt() -> None:
    world = filled(saved=12).reopened(commit_log_end=90)
    assert world.files.queue_offset == 0
    assert world.files.aside


def test_units_whose_file_was_deleted_are_not_missed(world: World) -> None:
    world.files.log.delete_before(60)
    world = world.reopened()
    assert world.files.aside == []
    assert [world.due(5_000 + third * 1_000) for third in range(3)] == [[6, 9], [4, 7, 10], [5, 8, 11]]


def test_a_slot_whose_messages_are_all_gone_is_free() -> None:
    world = World()
    world.put(0, 9_000)
    for number in range(1, 12):
        world.put(number, 5_000)
    world.save()
    world.files.log.delete_before(1 << 30)
    world = world.reopened()
    assert (world.due(9_000), world.files.earliest_ms) == ([], 5_000)


def test_a_chain_that_leads_to_no_unit_of_its_slot_is_damage() -> None:
    world = filled()
    slot = world.files.wheel.slot(5_000)
    assert slot is not None
    with pytest.raises(DamagedTimers, match="5000 leads to 52 "):
        list(world.files.chain(slot._replace(last=52)))
    with pytest.raises(DamagedTimers, match="leads to 53 "):
        list(world.files.chain(slot._replace(last=53)))


def test_a_full_disk_puts_nothing_and_a_later_call_does() -> None:
    world = World(FakeDisk(capacity=0))
    with pytest.raises(OSError) as caught:
        world.put(0, 5_000)
    assert caught.value.errno == errno.ENOSPC
    world.disk.capacity = 1 << 30
    world.put(0, 5_000)
    assert world.due(5_000) == [0]


def test_a_disk_that_gives_nothing_is_an_error_and_moves_nothing_aside(world: World) -> None:
    world.disk.failures["open"] = OSError(errno.EIO, "input/output error")
    with pytest.raises(OSError, match="input/output"):
        world.reopened()
    world.disk.failures.clear()
    assert world.reopened().files.aside == []


def test_the_place_for_damaged_files_is_not_filled_without_end(world: World) -> None:
    for number in range(1, 100):
        world.disk.open(ROOT / "quarantine" / f"timerwheel-{number}", 1)
    log_has_a_hole(world)
    with pytest.raises(StoreError, match="99 copies of timerwheel"):
        world.reopened()


def test_the_version_counts_changes_only() -> None:
    world = filled()
    first = world.save()
    assert (first.version.counter, first.version.timestamp_ms) == (1, 77)
    assert world.save().version.counter == 1
    assert world.save(read_ms=2_000).version.counter == 2


def test_a_checkpoint_of_another_program_with_less_than_the_log_has_is_enough(world: World) -> None:
    world.disk.write(ROOT / "config" / "timercheck", format_timer_checkpoint_file(TimerCheckpoint(1_000, 0, 2, 2)))
    world = world.reopened()
    assert whole(world)
    assert (world.files.queue_offset, world.files.placed_end) == (2, 12)
