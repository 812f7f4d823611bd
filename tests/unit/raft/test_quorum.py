"""Majorities and elections."""

import pytest

from orbitmq.raft.quorum import Votes, majority, reached_by_majority


@pytest.mark.parametrize(("voters", "needed"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
def test_a_majority_is_more_than_half(voters, needed):
    assert majority(voters) == needed


@pytest.mark.parametrize(
    ("matches", "reached"),
    [([7], 7), ([7, 3], 3), ([7, 3, 5], 5), ([9, 9, 1, 1], 1), ([9, 9, 4, 1], 4), ([5, 4, 3, 2, 1], 3)],
)
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
