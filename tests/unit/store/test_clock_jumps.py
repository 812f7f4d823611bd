"""A broker whose clock was ahead or behind: what is stored afterwards has the true time, and is found by it."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orbitmq.store import Boundary, Store
from orbitmq.store.index.index_file import IndexSizes
from orbitmq.store.index.search import IndexQuery, IndexQueryResult
from orbitmq.store.log.clock_jumps import ClockJump, parse_clock_jumps
from orbitmq.store.retention.rules import HOUR_MS, RetentionRules
from orbitmq.store.values import StoreIssueKind
from orbitmq.testing import FakeClock
from orbitmq.testing.fake_disk import FakeDisk
from orbitmq.wire.messages.record import parse_record
from seeds import examples

from .parts import ROOT, draft, store_of

T0 = 1_700_000_000_000
DAY_MS = 24 * HOUR_MS
YEAR_MS = 365 * DAY_MS
SECOND_MS = 1000


class World:
    """A store whose broker's clock may be wrong; messages are a second apart."""

    def __init__(self, **changes: Any) -> None:
        self.disk, self.clock, self.changes = FakeDisk(), FakeClock(T0), changes
        self.true_ms = T0
        self.error_ms = 0
        self.monotonic = FakeClock(0)
        self.store = self.open()

    def open(self) -> Store:
        self.store = store_of(self.disk, self.clock, self.monotonic, **self.changes)
        return self.store

    def pass_time(self, time_ms: int) -> None:
        self.true_ms += time_ms
        self.monotonic.advance(time_ms)
        self.clock.set(self.true_ms + self.error_ms)

    def set_clock(self, error_ms: int) -> None:
        self.error_ms = error_ms
        self.clock.set(self.true_ms + error_ms)

    def send(self, count: int, **changes: Any) -> list[int]:
        """Append messages; return their store times."""
        times = []
        for _ in range(count):
            self.pass_time(SECOND_MS)
            times.append(self.store.append(draft(**changes)).stored_at_ms)
        return times

    def restart(self, error_ms: int = 0) -> None:
        self.store.close()
        self.set_clock(error_ms)
        self.open()

    def at(self, timestamp_ms: int, boundary: Boundary = Boundary.LOWER) -> int:
        return self.store.offset_at("orders", 0, timestamp_ms, boundary)


@pytest.fixture
def world() -> World:
    """Three messages, five of a year ahead, and three more after the clock was set right with a restart."""
    world = World()
    world.send(3)
    world.restart(YEAR_MS)
    world.send(5)
    world.restart()
    world.send(3)
    return world


def test_after_a_restart_with_the_right_clock_messages_have_the_true_time_again(world: World) -> None:
    assert world.send(1) == [world.true_ms]


def test_after_the_clock_of_a_running_broker_was_set_right_messages_have_the_true_time_again(world: World) -> None:
    world.set_clock(YEAR_MS)
    world.send(2)
    world.set_clock(0)
    assert world.send(1) == [world.true_ms]


def test_a_clock_that_is_set_back_by_a_minute_stands_still(world: World) -> None:
    [last_ms] = world.send(1)
    world.set_clock(-60 * SECOND_MS)
    assert world.store.append(draft()).stored_at_ms == last_ms
    assert world.store.append(draft()).stored_at_ms == last_ms


def test_a_search_by_time_finds_messages_before_and_behind_those_of_the_future(world: World) -> None:
    assert [world.at(T0 + number * SECOND_MS) for number in (1, 2, 3)] == [0, 1, 2]
    assert [world.at(T0 + number * SECOND_MS) for number in (9, 10, 11, 12)] == [8, 9, 10, 11]
    assert [world.at(T0 + number * SECOND_MS, Boundary.UPPER) for number in (1, 3, 9, 10, 11)] == [0, 2, 8, 9, 10]


def test_messages_of_the_future_count_as_stored_when_the_clock_was_set_right(world: World) -> None:
    # It was set right after the fifth, at the eighth second. A search for a time before that loses none of them.
    assert [world.at(T0 + number * SECOND_MS) for number in (4, 8)] == [3, 3]
    assert [world.at(T0 + number * SECOND_MS, Boundary.UPPER) for number in (7, 8)] == [2, 7]


def test_now_is_behind_messages_of_the_future_that_are_the_last_ones() -> None:
    world = World()
    world.set_clock(YEAR_MS)
    world.send(5)
    world.restart()
    world.pass_time(1)
    assert (world.at(world.true_ms), world.at(world.true_ms, Boundary.UPPER)) == (5, 4)
    assert world.at(T0) == 0


def test_a_clock_that_was_behind_hides_no_earlier_messages() -> None:
    world = World()
    world.send(3)
    world.restart(-20 * YEAR_MS)
    world.send(5)
    world.restart()
    world.send(3)
    assert [world.at(T0 + number * SECOND_MS) for number in (1, 3, 4, 9, 11)] == [0, 2, 8, 8, 10]


async def find(store: Store, begin_ms: int, end_ms: int) -> list[int]:
    answers: list[Any] = []
    store.query(IndexQuery("orders", "k", 99, begin_ms, end_ms), answers.append)
    [answer] = answers
    assert isinstance(answer, IndexQueryResult)
    found, at = [], 0
    while at < len(answer.body):
        record: Any = parse_record(answer.body[at:])
        found.append(record.queue_offset)
        at += record.size
    return found


@pytest.mark.parametrize("sizes", [IndexSizes(8, 4), IndexSizes(8, 100)])
@pytest.mark.parametrize("error_ms", [YEAR_MS, -YEAR_MS])
async def test_a_query_by_key_and_time_finds_the_same(sizes: IndexSizes, error_ms: int) -> None:
    world = World(has_index=True, index_slots=sizes.slots, index_entries=sizes.entries)
    for at_ms in (0, error_ms, 0):
        world.restart(at_ms)
        world.send(4, properties=b"KEYS\x01k\x02")
    world.restart()
    world.pass_time(1)
    assert await find(world.store, T0 + 9 * SECOND_MS, world.true_ms) == [8, 9, 10, 11]
    assert await find(world.store, T0, T0 + 4 * SECOND_MS) == [0, 1, 2, 3]
    if error_ms > 0:
        assert await find(world.store, T0, world.true_ms) == list(range(12))
    world.store.close()


@pytest.mark.parametrize("error_ms", [YEAR_MS, -YEAR_MS])
async def test_messages_of_a_wrong_clock_expire_when_those_behind_them_do_and_not_before(error_ms: int) -> None:
    rules = RetentionRules(reserved_ms=72 * HOUR_MS, delete_hours=frozenset(range(24)), segment_pause_ms=0)
    world = World(retention=rules)
    world.send(9, body=bytes(500))
    world.restart(error_ms)
    world.send(20, body=bytes(500))
    world.restart()
    world.send(20, body=bytes(500))
    world.store.flush()
    await world.store.retention.do_round()
    assert world.store.min_physical_offset == 0
    world.pass_time(73 * HOUR_MS)
    await world.store.retention.do_round()
    segments = world.store._commit_log.log.segments
    assert [segment.base for segment in segments] == [segments[-1].base]
    assert world.store.offset_at("orders", 0, world.true_ms) == 49


def test_the_place_of_the_jump_is_among_the_issues_while_its_messages_are_of_the_future(world: World) -> None:
    [issue] = [issue for issue in world.store.issues if issue.kind is StoreIssueKind.CLOCK]
    position = world.store.queue_entries("orders", 0, 8, 1)[0][0]  # type: ignore[index]
    assert f"before {position} of the commitlog" in issue.reason
    assert f"{YEAR_MS / HOUR_MS:.1f} h in the future" in issue.reason
    world.pass_time(YEAR_MS)
    assert StoreIssueKind.CLOCK not in [issue.kind for issue in world.store.issues]


def test_a_copy_of_the_log_notes_the_same_place(world: World) -> None:
    copy = World(is_copy=True)
    copy.set_clock(world.true_ms - T0)
    for record in world.store.records_between(0, world.store.max_physical_offset):
        copy.store.append_copy(record, world.store.record_at(record.physical_offset) or b"")
    assert parse_clock_jumps(copy.disk.read(ROOT / "jumps"))[0].position == record.physical_offset - 2 * record.size
    assert [copy.at(T0 + number * SECOND_MS) for number in (2, 10, 11)] == [1, 9, 10]


def test_where_the_disk_takes_no_note_times_stand_still(world: World) -> None:
    world.set_clock(YEAR_MS)
    [last_ms] = world.send(1)
    world.set_clock(0)
    world.disk.failures["write"] = OSError(5, "Input/output error")
    assert world.send(1) == [last_ms]


def test_after_a_thousand_places_times_stand_still(world: World) -> None:
    world.store.close()
    world.disk.write(ROOT / "jumps", b"1 9 1\n" * 1000)
    world.open()
    world.set_clock(YEAR_MS)
    [last_ms] = world.send(1)
    world.set_clock(0)
    assert world.send(1) == [last_ms]


async def test_files_of_the_future_without_a_note_expire_with_a_later_one() -> None:
    rules = RetentionRules(reserved_ms=72 * HOUR_MS, delete_hours=frozenset(range(24)), segment_pause_ms=0)
    world = World(retention=rules)
    world.set_clock(YEAR_MS)
    world.send(20, body=bytes(500))
    world.restart()
    world.send(20, body=bytes(500))
    world.store.close()
    world.disk.remove(ROOT / "jumps")  # as Java's brokers leave it
    world.open()
    await world.store.retention.do_round()
    assert world.store.min_physical_offset == 0
    world.pass_time(73 * HOUR_MS)
    await world.store.retention.do_round()
    assert len(world.store._commit_log.log.segments) == 1


def test_notes_of_places_that_the_log_does_not_have_are_forgotten(world: World) -> None:
    world.store.close()
    world.disk.write(ROOT / "jumps", b"0 9 1\n50 9 1\nx 9 1\n99999 9 1\n")
    world.open()
    assert parse_clock_jumps(world.disk.read(ROOT / "jumps")) == [ClockJump(50, 9, 1)]


ERRORS_MS = st.one_of(st.just(0), st.integers(DAY_MS, YEAR_MS), st.integers(-YEAR_MS, -DAY_MS))
STEPS = st.lists(
    st.tuples(ERRORS_MS, st.integers(0, 6), st.sampled_from(["close", "kill", "power", "run"])), max_size=9
)


@settings(max_examples=examples(60), deadline=None)
@given(STEPS, st.randoms(use_true_random=False))
def test_whatever_clocks_do_the_log_is_whole_and_a_time_is_found_at_the_first_message_of_it(
    steps: list[tuple[int, int, str]], random: Random
) -> None:
    world = World()
    synced = 0
    for error_ms, count, end in [*steps, (0, 2, "close")]:
        world.set_clock(error_ms)
        world.send(count)
        if end == "run":
            continue
        if end == "close":
            world.store.close()
        elif random.random() < 0.5:
            world.store.flush()
            synced = world.store.max_offset("orders", 0)
        before = world.store.max_offset("orders", 0)
        if end == "kill":
            world.disk = world.disk.after_kill()
        elif end == "power":
            world.disk = world.disk.after_power_cut(Random(random.random()))
        world.open()
        found = world.store.max_offset("orders", 0)
        assert found == before if end != "power" else synced <= found <= before
        synced = found
    world.restart()
    assert world.send(1) == [world.true_ms]
    records = [world.store.message_at("orders", 0, at) for at in range(world.store.max_offset("orders", 0))]
    times = [record.stored_at_ms for record in records if record is not None]
    assert len(times) == len(records)
    now = [(offset, time_ms) for offset, time_ms in enumerate(times) if time_ms <= world.true_ms]
    for t in {time_ms + delta for _, time_ms in now for delta in (0, 1)}:
        expected = next((offset for offset, time_ms in now if time_ms >= t), len(times))
        offset = world.at(t)
        # A message of the future before it may have been stored then, or later: none of those is lost.
        assert offset == expected or (offset < expected and times[offset] > world.true_ms)
    jumps = parse_clock_jumps(world.disk.read(ROOT / "jumps"))
    for one, two in pairwise(record for record in records if record is not None):
        is_noted = any(one.physical_offset < jump.position <= two.physical_offset for jump in jumps)
        assert one.stored_at_ms <= two.stored_at_ms or is_noted
