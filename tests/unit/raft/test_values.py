"""Positions in a log, entries, settings that cannot work, and majorities."""

import pytest

from cases import each_case
from orbitmq.errors import InvalidArgument
from orbitmq.raft import Entry, Position, Settings
from orbitmq.raft.quorum import Votes, majority, reached_by_majority

VOTERS = frozenset({1, 2, 3})


@each_case(
    (Position(1, 2), Position(9, 1), True),
    (Position(9, 1), Position(1, 2), False),
    (Position(5, 2), Position(5, 2), True),
    (Position(4, 2), Position(5, 2), False),
    (Position(6, 2), Position(5, 2), True),
)
def test_a_log_is_newer_by_its_last_term_and_then_by_its_length(mine, yours, is_as_new):
    assert mine.is_as_new_as(yours) is is_as_new


def test_only_a_leaders_mark_has_no_data():
    assert Entry(1, 1, b"").is_mark
    assert not Entry(1, 1, b"x").is_mark
    assert Entry(7, 3, b"x").position == Position(7, 3)


@each_case(
    ({"voters": frozenset()}, "voters"),
    ({"voters": frozenset({0, 1})}, "voters"),
    ({"id": 4}, "id"),
    ({"heartbeat_ticks": 0}, "heartbeat_ticks"),
    ({"heartbeat_ticks": 10}, "heartbeat_ticks"),
    ({"batch_size_max": 0}, "batch_size_max"),
    ({"inflight_max": 0}, "inflight_max"),
    ({"uncommitted_size_max": 0}, "uncommitted_size_max"),
)
def test_settings_that_cannot_work_are_refused_by_name(changes, field):
    with pytest.raises(InvalidArgument) as refusal:
        Settings(**({"id": 1, "voters": VOTERS} | changes))
    assert refusal.value.field == field


def test_the_least_of_everything_works():
    Settings(
        id=1,
        voters=frozenset({1}),
        election_ticks=2,
        heartbeat_ticks=1,
        batch_size_max=1,
        inflight_max=1,
        uncommitted_size_max=1,
    )


@each_case((1, 1), (2, 2), (3, 2), (4, 3), (5, 3))
def test_a_majority_is_more_than_half(voters, needed):
    assert majority(voters) == needed


@each_case(([7], 7), ([7, 3], 3), ([7, 3, 5], 5), ([9, 9, 1, 1], 1), ([9, 9, 4, 1], 4), ([5, 4, 3, 2, 1], 3))
def test_a_majority_has_what_the_middle_has(matches, reached):
    assert reached_by_majority(matches) == reached


def votes(count, **answers):
    found = Votes(frozenset(range(1, count + 1)))
    for voter, is_granted in answers.items():
        found.record(int(voter[1:]), is_granted)
    return found


def test_an_election_is_open_until_a_majority_has_spoken():
    open_ = votes(5, n1=True, n2=True, n3=False, n4=False)
    assert (open_.are_won, open_.are_lost) == (False, False)
    open_.record(5, True)
    assert (open_.are_won, open_.are_lost) == (True, False)


def test_a_majority_of_refusals_ends_an_election():
    assert votes(3, n1=True, n2=False, n3=False).are_lost
    assert not votes(3, n1=True, n2=False).are_lost


def test_half_of_the_refusals_end_an_election_of_an_even_group():
    assert votes(4, n1=False, n2=False).are_lost
    assert not votes(4, n1=True, n2=True).are_won


def test_a_voters_first_answer_counts_and_strangers_have_none():
    once = votes(3, n1=True)
    once.record(1, False)
    once.record(9, True)
    once.record(2, False)
    once.record(2, True)
    assert once.answers == {1: True, 2: False}
    assert not once.are_won
