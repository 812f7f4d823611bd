"""Queues in order: blocked while messages of a batch are out."""

from __future__ import annotations

import pytest

from orbitmq.broker.pop.ordered_queues import FORGOTTEN_AFTER_MS, LEFT_MS_MAX, OrderedQueues
from orbitmq.testing import FakeClock
from orbitmq.wire.pop.ordered_batches import OrderedBatch, OrderedPlace

PLACE: OrderedPlace = ("t", "g", 0)


class Harness:
    def __init__(self, *batches: tuple[OrderedPlace, OrderedBatch], count_max: int = 10) -> None:
        self.wall, self.mono = FakeClock(1_000_000), FakeClock(5_000)
        self.queues = OrderedQueues(batches, count_max=count_max, clock=self.wall, monotonic=self.mono)

    def give(self, *offsets: int, place: OrderedPlace = PLACE, attempt_id: str | None = None) -> OrderedBatch:
        return self.queues.give(place, offsets, self.wall(), 60_000, attempt_id)

    def pass_ms(self, duration_ms: int) -> None:
        self.wall.advance(duration_ms)
        self.mono.advance(duration_ms)

    @property
    def is_blocked(self) -> bool:
        return self.queues.blocked_until_ms(PLACE) is not None


@pytest.fixture
def harness() -> Harness:
    return Harness()


def test_a_queue_is_blocked_until_all_of_its_batch_are_acknowledged(harness: Harness):
    assert not harness.is_blocked
    harness.give(4, 5, 7)
    assert [harness.queues.acknowledge(PLACE, offset) for offset in (5, 4)] == [4, 7]
    assert harness.is_blocked
    assert harness.queues.acknowledge(PLACE, 7) == 8
    assert not harness.is_blocked
    assert (harness.queues.count, harness.queues.find(PLACE)) == (0, None)


def test_a_queue_is_free_when_the_time_of_all_that_is_left_is_over(harness: Harness):
    harness.give(4, 5)
    assert harness.queues.blocked_until_ms(PLACE) == 65_000
    harness.pass_ms(59_999)
    assert harness.is_blocked
    harness.wall.advance(86_400_000)  # not the clock that counts
    assert harness.is_blocked
    harness.pass_ms(1)
    assert not harness.is_blocked


def test_the_same_attempt_gets_its_batch_again_at_any_time_and_it_counts_as_one_try(harness: Harness):
    harness.give(4, 5, attempt_id="a")
    assert harness.queues.blocked_until_ms(PLACE, "a") is None
    assert harness.queues.blocked_until_ms(PLACE, "b") is not None
    assert harness.give(4, 5, attempt_id="a").counts == {}
    assert harness.give(4, 5, attempt_id="b").counts == {4: 1, 5: 1}
    assert harness.give(4, 5, attempt_id="b").counts == {4: 1, 5: 1}
    assert harness.give(5, 6).counts == {5: 2}
    assert harness.give(5, 6).counts == {5: 3, 6: 1}


def test_a_changed_time_counts_from_now_on_for_the_latest_pop_alone(harness: Harness):
    batch = harness.give(4, 5)
    assert harness.queues.change_time(PLACE, 4, batch.pop_time_ms, 90_000) == 1_090_000
    assert harness.queues.blocked_until_ms(PLACE) == 95_000
    assert harness.queues.change_time(PLACE, 4, batch.pop_time_ms, 0) == 1_000_000
    assert harness.queues.change_time(PLACE, 5, batch.pop_time_ms, 0) == 1_000_000
    assert not harness.is_blocked
    for place, offset, pop_time_ms in ((PLACE, 6, batch.pop_time_ms), (PLACE, 4, 1), (("u", "g", 0), 4, 1)):
        assert harness.queues.change_time(place, offset, pop_time_ms, 1) is None


def test_what_an_earlier_run_left_blocks_as_long_as_it_would_have():
    batch = OrderedBatch((4, 5, 7), 990_000, 60_000, 990_000, acked=1, visible_at_ms={7: 1_100_000})
    far = OrderedBatch((1,), 2**62, 60_000, 1)
    done = OrderedBatch((1,), 990_000, 60_000, 1, acked=1)
    over = OrderedBatch((1,), 1, 1, 1)
    harness = Harness((PLACE, batch), (("t", "g", 1), far), (("t", "g", 2), done), (("t", "g", 3), over))
    assert harness.queues.blocked_until_ms(PLACE) == 105_000
    assert harness.queues.blocked_until_ms(("t", "g", 1)) == 5_000 + LEFT_MS_MAX
    assert harness.queues.count == 3
    assert harness.queues.blocked_until_ms(("t", "g", 3)) is None
    assert harness.queues.acknowledge(PLACE, 5) == 7
    assert dict(harness.queues.batches)[PLACE] == batch._replace(acked=3)


def test_too_many_batches_make_room_by_those_whose_time_is_over():
    harness = Harness(count_max=2)
    others: list[OrderedPlace] = [("t", "g", number) for number in (1, 2, 3)]
    harness.give(1, place=others[0])
    harness.pass_ms(1)
    harness.give(1, place=others[1])
    assert not harness.queues.has_room(others[2])
    assert harness.queues.has_room(others[1])
    harness.pass_ms(59_999)
    assert harness.queues.has_room(others[2])
    assert [place for place, _ in harness.queues.batches] == [others[1]]


def test_room_is_made_by_whichever_batch_is_over_first_not_by_the_oldest_alone():
    harness = Harness(count_max=3)
    places: list[OrderedPlace] = [("t", "g", number) for number in range(5)]
    harness.queues.give(places[0], (1, 2), harness.wall(), 3 * 86_400_000, None)
    harness.give(1, place=places[1])
    harness.give(1, 2, place=places[2])
    harness.pass_ms(30_000)
    assert harness.queues.change_time(places[1], 1, harness.wall() - 30_000, 90_000) is not None
    harness.pass_ms(30_000)
    assert harness.queues.has_room(places[3])
    assert [place for place, _ in harness.queues.batches] == places[:2]
    harness.give(1, place=places[3])
    assert not harness.queues.has_room(places[4])
    harness.pass_ms(60_000)
    assert harness.queues.has_room(places[4])
    harness.give(1, place=places[4])
    assert harness.queues.has_room(places[2])
    assert [place for place, _ in harness.queues.batches] == [places[0], places[4]]


def test_a_message_that_is_done_holds_its_batch_no_longer():
    harness = Harness(count_max=1)
    harness.give(1, 2)
    harness.queues.change_time(PLACE, 1, harness.wall(), 600_000)
    harness.pass_ms(60_000)
    assert not harness.queues.has_room(("t", "g", 9))
    harness.queues.acknowledge(PLACE, 1)
    assert harness.queues.has_room(("t", "g", 9))


def test_what_an_earlier_run_left_makes_room_too():
    batch = OrderedBatch((1,), 940_000, 60_001, 940_000)
    harness = Harness((PLACE, batch), count_max=1)
    assert not harness.queues.has_room(("t", "g", 9))
    harness.pass_ms(1)
    assert harness.queues.has_room(("t", "g", 9))


def test_deadlines_that_do_not_hold_any_more_are_not_kept_for_ever():
    harness = Harness(count_max=3)
    for _ in range(10_000):
        harness.give(1)
    assert len(harness.queues._due) < 2_000
    harness.give(1, place=("t", "g", 1))
    harness.give(1, place=("t", "g", 2))
    harness.pass_ms(60_000)
    assert harness.queues.has_room(("t", "g", 9))


def test_what_is_deleted_or_old_is_forgotten(harness: Harness):
    harness.give(1)
    harness.give(1, place=("u", "g", 0))
    harness.give(1, place=("u", "h", 0))
    harness.pass_ms(FORGOTTEN_AFTER_MS)
    harness.give(1, place=("v", "h", 0))
    harness.queues.forget_topic("t")
    assert [place[0] for place, _ in harness.queues.batches] == ["u", "u", "v"]
    harness.queues.forget_group("g")
    assert [place[0] for place, _ in harness.queues.batches] == ["u", "v"]
    harness.pass_ms(1)
    before = harness.queues.change_count
    harness.queues.forget_old()
    assert [place[0] for place, _ in harness.queues.batches] == ["v"]
    assert harness.queues.change_count == before + 1


def test_what_is_old_and_still_popped_blocks_its_queue_on(harness: Harness):
    batch = harness.give(1)
    harness.queues.change_time(PLACE, 1, batch.pop_time_ms, 2 * FORGOTTEN_AFTER_MS)
    harness.pass_ms(FORGOTTEN_AFTER_MS + 1)
    harness.queues.forget_old()
    assert harness.is_blocked
    harness.pass_ms(FORGOTTEN_AFTER_MS)
    harness.queues.forget_old()
    assert harness.queues.count == 0
