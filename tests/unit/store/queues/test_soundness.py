"""The judgement of a consume queue by its entries alone."""

import pytest

from orbitmq.store.queues.soundness import Shares, has_hole, is_rising


@pytest.mark.parametrize(
    ("places", "rising"),
    [([], True), ([0], True), ([0, 100, 250], True), ([0, 100, 100, 250], True), ([100, 0], False), ([-1], False)],
)
def test_entries_follow_the_logs_order(places, rising):
    assert is_rising([(place, 100, 0) for place in places]) is rising


@pytest.mark.parametrize("size", [0, -5])
def test_an_entry_without_a_record_is_none(size):
    assert is_rising([(0, 100, 0), (100, size, 0)]) is False


def test_an_entry_of_an_older_record_behind_the_end_betrays_a_hole():
    assert has_hole([(0, 0, 0), (900, 100, 0)], 1000)
    assert not has_hole([(0, 0, 0), (1000, 100, 0)], 1000)
    assert not has_hole([(0, 0, 7), (0, 0, 0)], 1000)


@pytest.mark.parametrize(
    ("queue_count", "shares"), [(0, (4_096, 128)), (1, (4_096, 128)), (10, (409, 12)), (10_000, (64, 1))]
)
def test_many_queues_share_what_a_start_may_spend(queue_count, shares):
    assert Shares.of(queue_count) == shares
