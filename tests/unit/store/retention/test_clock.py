"""Ages of messages: only time counts that passed while the broker ran."""

import pytest

from orbitmq.store.retention.clock import RetentionClock
from orbitmq.store.retention.rules import HOUR_MS

START = 1_000 * HOUR_MS
MINUTE_MS = 60_000


class Clocks:
    """A wall clock that may be set, and the monotonic one, which counts from a moment of its own."""

    def __init__(self, newest_ms: int = 0) -> None:
        self.wall, self.monotonic = START, 7
        self.ages = RetentionClock(self.wall, self.monotonic)
        self.ages.found(newest_ms)

    def passes(self, hours: float) -> None:
        self.wall += int(hours * HOUR_MS)
        self.monotonic += int(hours * HOUR_MS)
        self.ages.look(self.wall, self.monotonic)

    def set(self, hours: float) -> int:
        """Set the wall clock ahead, or back; return what is seen of it."""
        self.wall += int(hours * HOUR_MS)
        return self.ages.look(self.wall, self.monotonic)

    def hours(self, stored_at_ms: int) -> float:
        return self.ages.age_ms(stored_at_ms) / HOUR_MS


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


def test_time_that_passes_makes_messages_older(clocks: Clocks):
    clocks.passes(5)
    assert clocks.hours(START) == 5
    assert clocks.hours(START + HOUR_MS) == 4


def test_a_clock_that_is_set_ahead_makes_no_message_older(clocks: Clocks):
    clocks.passes(1)
    assert clocks.set(100) == 100 * HOUR_MS
    assert clocks.hours(START) == 1
    after = clocks.wall
    clocks.passes(2)
    assert clocks.hours(START) == 3
    assert clocks.hours(after) == 2


def test_each_time_that_the_clock_is_set_ahead_counts(clocks: Clocks):
    clocks.set(100)
    between = clocks.wall
    clocks.passes(1)
    clocks.set(50)
    assert clocks.hours(START) == 1
    assert clocks.hours(between) == 1


def test_a_message_stored_between_the_jump_and_the_look_at_it_is_a_new_one(clocks: Clocks):
    clocks.wall += 100 * HOUR_MS + 9_000
    clocks.monotonic += 9_000
    stored = clocks.wall - 8_000
    clocks.ages.look(clocks.wall, clocks.monotonic)
    assert clocks.ages.age_ms(stored) == 8_000


def test_a_clock_that_is_set_right_again_undoes_what_was_skipped(clocks: Clocks):
    clocks.set(100)
    assert clocks.set(-100) == -100 * HOUR_MS
    clocks.passes(3)
    assert clocks.hours(START) == 3


def test_a_clock_that_is_set_back_in_part_undoes_a_part(clocks: Clocks):
    clocks.set(10)
    clocks.set(20)
    clocks.set(-25)
    clocks.passes(1)
    assert clocks.hours(START) == 1


def test_a_clock_that_is_set_back_makes_messages_newer_and_never_old_again_immediately(clocks: Clocks):
    clocks.set(-100)
    assert clocks.hours(START) == -100
    clocks.set(100)
    assert clocks.hours(START) == 0


def test_a_clock_that_is_slewed_counts_as_it_is_until_it_is_a_minute_off(clocks: Clocks):
    clocks.wall += MINUTE_MS - 1
    assert clocks.ages.look(clocks.wall, clocks.monotonic) == 0
    assert clocks.ages.age_ms(START) == MINUTE_MS - 1
    clocks.wall += 1
    assert clocks.ages.look(clocks.wall, clocks.monotonic) == MINUTE_MS
    assert clocks.ages.age_ms(START) == 0


def test_the_time_from_the_newest_message_to_the_start_does_not_count():
    clocks = Clocks(newest_ms=START - 100 * HOUR_MS)
    assert clocks.hours(START - 100 * HOUR_MS) == 0
    assert clocks.hours(START - 130 * HOUR_MS) == 30
    clocks.passes(1)
    assert clocks.hours(START - 100 * HOUR_MS) == 1
    assert clocks.hours(START) == 1


def test_how_long_before_the_start_the_newest_message_was_stored_is_told():
    assert RetentionClock(START, 0).found(START - 5) == 5
    assert RetentionClock(START, 0).found(START) == 0
    assert RetentionClock(START, 0).found(START + 5) == 0
    assert RetentionClock(START, 0).found(0) == 0


def test_a_clock_that_was_wrong_at_the_start_and_is_set_right_makes_no_message_newer():
    clocks = Clocks(newest_ms=START - 100 * HOUR_MS)
    clocks.passes(1)
    clocks.set(-100)
    assert clocks.hours(START - 100 * HOUR_MS) == 1


def test_the_store_time_of_an_age_is_the_one_whose_messages_have_that_age(clocks: Clocks):
    stored = [START]
    for ahead in (0, 100, 30, -20):
        clocks.set(ahead)
        stored.append(clocks.wall)
        clocks.passes(5)
    for age_ms in range(0, 30 * HOUR_MS, HOUR_MS):
        before_ms = clocks.ages.stored_before_ms(age_ms)
        assert [time_ms < before_ms for time_ms in stored] == [
            clocks.ages.age_ms(time_ms) > age_ms for time_ms in stored
        ]
