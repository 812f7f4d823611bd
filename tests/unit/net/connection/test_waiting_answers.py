"""Claims about the room that answers share which wait for their readers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from orbitmq.net.connection.budgets import WaitingAnswers


class Harness:
    """A budget of 1,000 bytes, what waits for each peer, and who was ended."""

    def __init__(self, size_max: int = 1_000) -> None:
        self.answers = WaitingAnswers(size_max)
        self.sizes: dict[int, int] = {}
        self.ended: list[int] = []

    def wait(self, connection_id: int, size: int) -> None:
        self.sizes[connection_id] = size
        self.answers.note(connection_id, lambda: self.sizes[connection_id], self._abort(connection_id))

    def _abort(self, connection_id: int) -> Callable[[str], None]:
        def abort(reason: str) -> None:
            assert reason == "waiting answers"
            self.ended.append(connection_id)

        return abort


@pytest.fixture
def harness() -> Harness:
    return Harness()


def test_where_it_would_be_more_the_one_ends_that_has_read_nothing_for_the_longest(harness: Harness):
    for connection_id in (1, 2, 3):
        harness.wait(connection_id, 300)
    harness.wait(3, 400)
    assert (harness.answers.size, harness.ended) == (1_000, [])
    harness.wait(4, 300)
    assert (harness.answers.size, harness.ended) == (1_000, [1])


def test_who_reads_is_measured_again_before_a_connection_ends(harness: Harness):
    harness.wait(1, 900)
    harness.sizes[1] = 0
    harness.wait(2, 900)
    assert (harness.answers.size, harness.ended) == (900, [])


def test_who_reads_slowly_stays_longer_than_who_does_not_read(harness: Harness):
    for connection_id in (1, 2, 3):
        harness.wait(connection_id, 300)
    harness.sizes[1] = 299
    harness.wait(4, 300)
    assert harness.ended == [2]


def test_a_small_one_is_spared_however_old_it_is(harness: Harness):
    harness.wait(1, 10)
    for connection_id in (2, 3, 4, 5):
        harness.wait(connection_id, 300)
    assert harness.ended == [2]


def test_what_is_given_back_is_counted_no_more(harness: Harness):
    harness.wait(1, 900)
    harness.answers.forget(1)
    harness.answers.forget(1)
    assert harness.answers.size == 0


def test_it_is_over_budget_above_half_until_a_peer_reads(harness: Harness):
    assert not harness.answers.is_over_budget
    harness.wait(1, 500)
    assert not harness.answers.is_over_budget
    harness.wait(2, 1)
    assert harness.answers.is_over_budget
    harness.sizes[1] = 499
    assert not harness.answers.is_over_budget
    assert harness.answers.size == 500


def test_without_a_limit_nothing_is_counted():
    harness = Harness(0)
    harness.wait(1, 1 << 40)
    assert (harness.answers.size, harness.answers.is_over_budget, harness.ended) == (0, False, [])
