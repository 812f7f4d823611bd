"""Queues in order: blocked while messages of a batch are out."""

from __future__ import annotations

import pytest

from orbitmq.broker.pop.ordered_queues import FORGOTTEN_AFTER_MS, LEFT_MS_MAX, OrderedQueues
from orbitmq.testing import FakeClock
from orbitmq.wire.pop.ordered_batches import OrderedBatch, OrderedPlace

PLACE: OrderedPlace = ("t", "g", 0)


class Rig:
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
def rig() -> Rig:
    return Rig()


def test_a_queue_is_blocked_until_all_of_its_batch_are_acknowledged(rig: Rig):
    assert not rig.is_blocked
    rig.give(4, 5, 7)
    assert [rig.queues.acknowledge(PLACE, offset) for offset in (5, 4)] == [4, 7]
    assert rig.is_blocked
    assert rig.queues.acknowledge(PLACE, 7) == 8
    assert not rig.is_blocked
    assert (rig.queues.count, rig.queues.find(PLACE)) == (0, None)


def test_a_queue_is_free_when_the_time_of_all_that_is_left_is_over(rig: Rig):
    rig.give(4, 5)
    assert rig.queues.blocked_until_ms(PLACE) == 65_000
    rig.pass_ms(59_999)
    assert rig.is_blocked
    rig.wall.advance(86_400_000)  # not the clock that counts
    assert rig.is_blocked
    rig.pass_ms(1)
    assert not rig.is_blocked


def test_the_same_attempt_gets_its_batch_again_at_any_time_and_it_counts_as_one_try(rig: Rig):
    rig.give(4, 5, attempt_id="a")
    assert rig.queues.blocked_until_ms(PLACE, "a") is None
    assert rig.queues.blocked_until_ms(PLACE, "b") is not None
    assert rig.give(4, 5, attempt_id="a").counts == {}
    assert rig.give(4, 5, attempt_id="b").counts == {4: 1, 5: 1}
    assert rig.give(4, 5, attempt_id="b").counts == {4: 1, 5: 1}
    assert rig.give(5, 6).counts == {5: 2}
    assert rig.give(5, 6).counts == {5: 3, 6: 1}


def test_a_changed_time_counts_from_now_on_for_the_latest_pop_alone(rig: Rig):
    batch = rig.give(4, 5)
    assert rig.queues.change_time(PLACE, 4, batch.pop_time_ms, 90_000) == 1_090_000
    assert rig.queues.blocked_until_ms(PLACE) == 95_000
    assert rig.queues.change_time(PLACE, 4, batch.pop_time_ms, 0) == 1_000_000
    assert rig.queues.change_time(PLACE, 5, batch.pop_time_ms, 0) == 1_000_000
    assert not rig.is_blocked
    for place, offset, pop_time_ms in ((PLACE, 6, batch.pop_time_ms), (PLACE, 4, 1), (("u", "g", 0), 4, 1)):
        assert rig.queues.change_time(place, offset, pop_time_ms, 1) is None


def test_what_an_earlier_run_left_blocks_as_long_as_it_would_have():
    batch = OrderedBatch((4, 5, 7), 990_000, 60_000, 990_000, acked=1, visible_at_ms={7: 1_100_000})
    far = OrderedBatch((1,), 2**62, 60_000, 1)
    done = OrderedBatch((1,), 990_000, 60_000, 1, acked=1)
    over = OrderedBatch((1,), 1, 1, 1)
    rig = Rig((PLACE, batch), (("t", "g", 1), far), (("t", "g", 2), done), (("t", "g", 3), over))
    assert rig.queues.blocked_until_ms(PLACE) == 105_000
    assert rig.queues.blocked_until_ms(("t", "g", 1)) == 5_000 + LEFT_MS_MAX
    assert rig.queues.count == 3
    assert rig.queues.blocked_until_ms(("t", "g", 3)) is None
    assert rig.queues.acknowledge(PLACE, 5) == 7
    assert dict(rig.queues.batches)[PLACE] == batch._replace(acked=3)


def test_too_many_batches_make_room_by_those_whose_time_is_over():
    rig = Rig(count_max=2)
    others: list[OrderedPlace] = [("t", "g", number) for number in (1, 2, 3)]
    rig.give(1, place=others[0])
    rig.pass_ms(1)
    rig.give(1, place=others[1])
    assert not rig.queues.has_room(others[2])
    assert rig.queues.has_room(others[1])
    rig.pass_ms(59_999)
    assert rig.queues.has_room(others[2])
    assert [place for place, _ in rig.queues.batches] == [others[1]]


def test_room_is_made_by_whichever_batch_is_over_first_not_by_the_oldest_alone():
    rig = Rig(count_max=3)
    places: list[OrderedPlace] = [("t", "g", number) for number in range(5)]
    rig.queues.give(places[0], (1, 2), rig.wall(), 3 * 86_400_000, None)
    rig.give(1, place=places[1])
    rig.give(1, 2, place=places[2])
    rig.pass_ms(30_000)
    assert rig.queues.change_time(places[1], 1, rig.wall() - 30_000, 90_000) is not None
    rig.pass_ms(30_000)
    assert rig.queues.has_room(places[3])
    assert [place for place, _ in rig.queues.batches] == places[:2]
    rig.give(1, place=places[3])
    assert not rig.queues.has_room(places[4])
    rig.pass_ms(60_000)
    assert rig.queues.has_room(places[4])
    rig.give(1, place=places[4])
    assert rig.queues.has_room(places[2])
    assert [place for place, _ in rig.queues.batches] == [places[0], places[4]]


def test_a_message_that_is_done_holds_its_batch_no_longer():
    rig = Rig(count_max=1)
    rig.give(1, 2)
    rig.queues.change_time(PLACE, 1, rig.wall(), 600_000)
    rig.pass_ms(60_000)
    assert not rig.queues.has_room(("t", "g", 9))
    rig.queues.acknowledge(PLACE, 1)
    assert rig.queues.has_room(("t", "g", 9))


def test_what_an_earlier_run_left_makes_room_too():
    batch = OrderedBatch((1,), 940_000, 60_001, 940_000)
    rig = Rig((PLACE, batch), count_max=1)
    assert not rig.queues.has_room(("t", "g", 9))
    rig.pass_ms(1)
    assert rig.queues.has_room(("t", "g", 9))


def test_deadlines_that_do_not_hold_any_more_are_not_kept_for_ever():
    rig = Rig(count_max=3)
    for _ in range(10_000):
        rig.give(1)
    assert len(rig.queues._due) < 2_000
    rig.give(1, place=("t", "g", 1))
    rig.give(1, place=("t", "g", 2))
    rig.pass_ms(60_000)
    assert rig.queues.has_room(("t", "g", 9))


def test_what_is_deleted_or_old_is_forgotten(rig: Rig):
    rig.give(1)
    rig.give(1, place=("u", "g", 0))
    rig.give(1, place=("u", "h", 0))
    rig.pass_ms(FORGOTTEN_AFTER_MS)
    rig.give(1, place=("v", "h", 0))
    rig.queues.forget_topic("t")
    assert [place[0] for place, _ in rig.queues.batches] == ["u", "u", "v"]
    rig.queues.forget_group("g")
    assert [place[0] for place, _ in rig.queues.batches] == ["u", "v"]
    rig.pass_ms(1)
    before = rig.queues.change_count
    rig.queues.forget_old()
    assert [place[0] for place, _ in rig.queues.batches] == ["v"]
    assert rig.queues.change_count == before + 1


def test_what_is_old_and_still_popped_blocks_its_queue_on(rig: Rig):
    batch = rig.give(1)
    rig.queues.change_time(PLACE, 1, batch.pop_time_ms, 2 * FORGOTTEN_AFTER_MS)
    rig.pass_ms(FORGOTTEN_AFTER_MS + 1)
    rig.queues.forget_old()
    assert rig.is_blocked
    rig.pass_ms(FORGOTTEN_AFTER_MS)
    rig.queues.forget_old()
    assert rig.queues.count == 0
