"""Claims about the room that answers share which wait for their readers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from orbitmq.net.connection.budgets import WaitingAnswers


class Rig:
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
def rig() -> Rig:
    return Rig()


def test_where_it_would_be_more_the_one_ends_that_has_read_nothing_for_the_longest(rig: Rig):
    for connection_id in (1, 2, 3):
        rig.wait(connection_id, 300)
    rig.wait(3, 400)
    assert (rig.answers.size, rig.ended) == (1_000, [])
    rig.wait(4, 300)
    assert (rig.answers.size, rig.ended) == (1_000, [1])


def test_who_reads_is_measured_again_before_a_connection_ends(rig: Rig):
    rig.wait(1, 900)
    rig.sizes[1] = 0
    rig.wait(2, 900)
    assert (rig.answers.size, rig.ended) == (900, [])


def test_who_reads_slowly_stays_longer_than_who_does_not_read(rig: Rig):
    for connection_id in (1, 2, 3):
        rig.wait(connection_id, 300)
    rig.sizes[1] = 299
    rig.wait(4, 300)
    assert rig.ended == [2]


def test_a_small_one_is_spared_however_old_it_is(rig: Rig):
    rig.wait(1, 10)
    for connection_id in (2, 3, 4, 5):
        rig.wait(connection_id, 300)
    assert rig.ended == [2]


def test_what_is_given_back_is_counted_no_more(rig: Rig):
    rig.wait(1, 900)
    rig.answers.forget(1)
    rig.answers.forget(1)
    assert rig.answers.size == 0


def test_it_is_over_budget_above_half_until_a_peer_reads(rig: Rig):
    assert not rig.answers.is_over_budget
    rig.wait(1, 500)
    assert not rig.answers.is_over_budget
    rig.wait(2, 1)
    assert rig.answers.is_over_budget
    rig.sizes[1] = 499
    assert not rig.answers.is_over_budget
    assert rig.answers.size == 500


def test_without_a_limit_nothing_is_counted():
    rig = Rig(0)
    rig.wait(1, 1 << 40)
    assert (rig.answers.size, rig.answers.is_over_budget, rig.ended) == (0, False, [])
