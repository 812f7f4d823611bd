"""Claims about the room that unfinished frames share."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from orbitmq.net.connection.budgets import COUNTED_SIZE_MIN, PartialFrames

MANY = 100 * COUNTED_SIZE_MIN


class Watched:
    """A budget, and the connections that it ended."""

    def __init__(self, size_max: int) -> None:
        self.frames = PartialFrames(size_max)
        self.ended: list[tuple[int, str]] = []

    def note(self, connection_id: int, size: int, ip: str | None = None) -> bool:
        return self.frames.note(connection_id, ip or f"10.0.0.{connection_id}", size, self._abort(connection_id))

    def _abort(self, connection_id: int) -> Callable[[str], None]:
        return lambda reason: self.ended.append((connection_id, reason))


@pytest.fixture
def watched() -> Watched:
    return Watched(4 * MANY)


def test_where_it_would_be_more_the_frame_that_began_first_ends(watched: Watched):
    for connection_id in range(1, 5):
        assert watched.note(connection_id, MANY)
    assert (watched.frames.size, watched.ended) == (4 * MANY, [])
    assert watched.note(3, MANY + 1)
    assert (watched.frames.size, watched.ended) == (3 * MANY + 1, [(1, "partial frames")])
    assert watched.note(1, MANY)
    assert [connection_id for connection_id, _ in watched.ended] == [1, 2]


def test_a_small_frame_is_spared_however_old_it_is(watched: Watched):
    watched.note(1, COUNTED_SIZE_MIN)
    for connection_id in range(2, 9):
        watched.note(connection_id, MANY)
    assert [connection_id for connection_id, _ in watched.ended] == [2, 3, 4, 5]


def test_one_address_leaves_a_quarter_to_the_others(watched: Watched):
    for connection_id in range(1, 10):
        watched.note(connection_id, MANY, "10.0.0.66")
    assert watched.frames.size == 3 * MANY
    assert watched.note(20, MANY)
    assert len(watched.ended) == 6


def test_what_is_whole_or_gone_is_given_back(watched: Watched):
    for number in range(100):
        assert watched.note(number, MANY)
        if number % 2:
            assert not watched.note(number, 0)
        else:
            watched.frames.forget(number)
            watched.frames.forget(number)
    assert (watched.frames.size, watched.ended) == (0, [])


def test_without_a_limit_nothing_is_counted():
    watched = Watched(0)
    assert not watched.note(1, MANY)
    assert watched.frames.size == 0


def test_a_frame_of_half_the_average_is_not_small():
    for first_size, ended in ((2 * MANY, [1]), (2 * MANY - 2, [2])):
        watched = Watched(12 * MANY - 3)
        for connection_id, size in ((1, first_size), (2, 5 * MANY), (3, 5 * MANY)):
            watched.note(connection_id, size)
        assert [connection_id for connection_id, _ in watched.ended] == ended


def test_an_address_may_have_three_quarters_to_the_last_byte(watched: Watched):
    for connection_id in (1, 2, 3):
        watched.note(connection_id, MANY, "10.0.0.66")
    watched.frames.forget(99)
    assert watched.ended == []
    watched.note(3, MANY + 1, "10.0.0.66")
    assert watched.ended == [(1, "partial frames")]
    watched.note(2, 0, "10.0.0.66")
    assert watched.note(4, 2 * MANY - 1, "10.0.0.66")
    assert len(watched.ended) == 1


def test_only_what_is_left_of_a_read_is_not_counted(watched: Watched):
    assert not watched.note(1, COUNTED_SIZE_MIN - 1)
    assert watched.frames.size == 0
    assert watched.note(1, COUNTED_SIZE_MIN)
    assert watched.frames.size == COUNTED_SIZE_MIN
