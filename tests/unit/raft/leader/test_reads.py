"""Reads that wait for a majority."""

from orbitmq.raft import ReadState
from orbitmq.raft.leader.reads import Reads


def reads(*voters):
    return Reads(1, frozenset(voters))


def test_a_lone_voter_confirms_itself():
    found = reads(1)
    found.add("a", 7)
    assert found.take_confirmed() == [ReadState("a", 7)]
    assert found.take_confirmed() == []


def test_a_read_waits_for_a_majority_of_answers_to_later_heartbeats():
    found = reads(1, 2, 3, 4, 5)
    found.add("a", 7)
    found.confirm(2, 0)
    found.confirm(3, found.round)
    assert found.take_confirmed() == []
    found.confirm(4, found.round)
    assert found.take_confirmed() == [ReadState("a", 7)]


def test_reads_are_confirmed_in_order_each_by_its_own_round():
    found = reads(1, 2, 3)
    found.add("a", 7)
    first = found.round
    found.add("b", 8)
    found.confirm(2, first)
    assert found.take_confirmed() == [ReadState("a", 7)]
    found.confirm(2, found.round)
    assert found.take_confirmed() == [ReadState("b", 8)]


def test_heartbeats_name_no_round_when_nobody_waits():
    found = reads(1, 2, 3)
    assert found.round == 0
    found.add("a", 7)
    assert found.round == 1
    found.confirm(2, 1)
    found.take_confirmed()
    assert found.round == 0


def test_an_older_answer_takes_nothing_back():
    found = reads(1, 2, 3)
    found.add("a", 7)
    found.add("b", 7)
    found.confirm(2, 2)
    found.confirm(2, 1)
    assert len(found.take_confirmed()) == 2


def test_rounds_that_were_never_sent_and_strangers_count_for_nothing():
    found = reads(1, 2, 3)
    found.add("a", 7)
    found.confirm(2, 9)
    found.confirm(9, 1)
    assert found.take_confirmed() == []
