"""A leader: which messages it sends, what it commits and confirms, and reads that wait for a majority."""

import pytest

from cases import each_case
from orbitmq.errors import NotLeader, ProposalsFull
from orbitmq.raft import (
    Append,
    Appended,
    AppendRejected,
    CampaignNow,
    Entry,
    Heartbeat,
    HeartbeatAnswer,
    InstallSnapshot,
    Position,
    Raft,
    ReadState,
    VoteAnswer,
)
from orbitmq.raft.leadership import Reads
from orbitmq.raft.progress import ProgressState
from unit.raft.group import Group, drain, never, said, saved, settings


def leader(*terms, commit=0, voters=3, **changes):
    """Return a leader whose log has entries of these terms before its own mark, and nothing left to say."""
    entries = tuple(Entry(index, term, b"x") for index, term in enumerate(terms, start=1))
    term = terms[-1] if terms else 0
    raft = Raft(settings(1, voters, pre_vote=False, **changes), saved(*entries, term=term, commit=commit), never)
    raft.campaign()
    drain(raft)
    for voter in range(2, voters // 2 + 2):
        raft.step(VoteAnswer(voter, 1, raft.term, is_granted=True))
    assert raft.role.value == "leader"
    drain(raft)
    return raft


def following(raft, *followers):
    """Let followers have everything, and say so."""
    for follower in followers:
        raft.step(Appended(follower, 1, raft.term, raft.log.last.index))
    drain(raft)
    return raft


def to(follower, messages):
    return [message for message in messages if message.receiver == follower]


def test_a_proposal_is_applied_everywhere():
    group = Group()
    raft = group.elect(1)
    assert raft.propose(b"a") == 2
    assert raft.propose(b"b") == 3
    group.settle()
    assert group.applied == {id: [b"a", b"b"] for id in (1, 2, 3)}


def test_a_leader_that_is_alone_needs_only_its_disk():
    group = Group(1)
    group.elect(1).propose(b"a")
    group.settle()
    assert group.applied == {1: [b"a"]}


def test_an_entry_is_committed_when_a_majority_has_it_on_its_disks():
    raft = following(leader(voters=5), 2, 3)
    raft.propose(b"a")
    raft.step(Appended(2, 1, 1, 2))
    raft.step(Appended(3, 1, 1, 2))
    assert raft.log.commit == 1, "the leader's own disk does not have it yet"
    drain(raft)
    assert raft.log.commit == 2


def test_entries_of_older_terms_are_committed_with_one_of_the_own_term():
    raft = leader(1, 2)
    raft.step(Appended(2, 1, 3, 2))
    assert raft.log.commit == 0
    raft.step(Appended(2, 1, 3, 3))
    assert raft.log.commit == 3


def test_a_new_leader_probes_with_its_mark():
    raft = leader(1)
    raft.tick()
    assert raft.progress(2).flow is ProgressState.PROBE
    assert raft.progress(2).is_paused


def test_a_follower_with_an_answer_is_sent_entries_ahead():
    raft = following(leader(), 2)
    raft.propose(b"a")
    raft.propose(b"b")
    sent = to(2, said(raft))
    assert [message.entries for message in sent] == [(Entry(2, 1, b"a"),), (Entry(3, 1, b"b"),)]
    assert to(3, sent) == []


def test_a_full_window_waits_for_answers():
    raft = following(leader(inflight_max=2), 2)
    for _ in range(4):
        raft.propose(b"a")
    assert len(to(2, said(raft))) == 2
    raft.step(Appended(2, 1, 1, 2))
    assert len(to(2, said(raft))) == 1


def test_messages_have_a_size():
    raft = following(leader(batch_size_max=20), 2)
    raft.report_unreachable(2)
    for _ in range(3):
        raft._leadership._append(b"x" * 10)
    raft.step(HeartbeatAnswer(2, 1, 1))
    assert [len(message.entries) for message in to(2, said(raft))] == [2]


def test_a_lost_append_is_sent_again_after_a_heartbeat():
    raft = following(leader(inflight_max=1), 2)
    raft.propose(b"a")
    drain(raft)
    raft.step(HeartbeatAnswer(2, 1, 1))
    (empty,) = to(2, said(raft))
    assert (empty.previous, empty.entries) == (Position(2, 1), ())
    raft.step(AppendRejected(2, 1, 1, 2, Position(1, 1)))
    (again,) = to(2, said(raft))
    assert (again.previous, again.entries) == (Position(1, 1), (Entry(2, 1, b"a"),))


def test_a_rejection_leads_to_where_the_logs_can_agree():
    raft = leader(1, 1, 1, 4, 4, 5, 5, 6, 6, 6)
    raft.step(AppendRejected(2, 1, 7, 10, Position(10, 3)))
    (again,) = to(2, said(raft))
    assert again.previous == Position(3, 1)


def test_a_hint_without_a_term_is_taken_as_it_is():
    raft = leader(1, 1, 1, 2, 2)
    raft.step(AppendRejected(2, 1, 3, 5, Position(2, 0)))
    assert to(2, said(raft))[0].previous == Position(2, 1)


def test_an_old_rejection_sends_nothing():
    raft = following(leader(1, 1), 2)
    raft.step(AppendRejected(2, 1, 2, 1, Position(1, 1)))
    assert said(raft) == []


def test_answers_beyond_the_log_and_of_strangers_are_ignored():
    raft = leader()
    raft.step(Appended(2, 1, 1, 9))
    assert raft.progress(2).match == 0
    raft._leadership.step(Appended(9, 1, 1, 1))


def test_a_commit_index_is_sent_with_the_next_message_or_immediately_to_waiters():
    raft = following(leader(), 2, 3)
    raft.propose(b"a")
    drain(raft)
    raft.step(Appended(2, 1, 1, 2))
    sent = said(raft)
    assert [message.commit for message in to(2, sent)] == [2]
    assert [message.commit for message in to(3, sent)] == [2]


# Snapshots


def behind(**changes):
    """Return a leader with a follower, 3, whose entries it no longer has."""
    raft = following(leader(**changes), 2)
    for _ in range(4):
        raft.propose(b"a")
    drain(raft)
    following(raft, 2)
    raft.compact(4, b"state")
    return raft


def test_nothing_is_sent_to_who_is_silent_when_only_a_snapshot_would_do():
    raft = behind()
    raft._leadership.is_majority_active()
    raft.step(Appended(2, 1, 1, 5))
    raft.propose(b"b")
    assert to(3, said(raft)) == []


def test_a_follower_that_is_behind_the_log_gets_the_snapshot_once():
    raft = behind()
    raft.step(AppendRejected(3, 1, 1, 0, Position(0, 0)))
    raft.step(HeartbeatAnswer(3, 1, 1))
    raft.step(HeartbeatAnswer(3, 1, 1))
    sent = to(3, said(raft))
    assert [message for message in sent if isinstance(message, InstallSnapshot)] == [
        InstallSnapshot(1, 3, 1, raft.log.snapshot)
    ]
    assert raft.progress(3).flow is ProgressState.SNAPSHOT


def with_snapshot_under_way():
    raft = behind()
    raft.step(HeartbeatAnswer(3, 1, 1))
    drain(raft)
    assert raft.progress(3).flow is ProgressState.SNAPSHOT
    return raft


def test_after_a_snapshot_the_rest_is_replicated():
    raft = with_snapshot_under_way()
    raft.step(Appended(3, 1, 1, 4))
    assert raft.progress(3).flow is ProgressState.REPLICATE
    (rest,) = to(3, said(raft))
    assert (rest.previous, rest.entries) == (Position(4, 1), (Entry(5, 1, b"a"),))


def test_an_answer_from_before_the_snapshot_does_not_end_it():
    raft = with_snapshot_under_way()
    raft.step(Appended(3, 1, 1, 1))
    assert raft.progress(3).flow is ProgressState.SNAPSHOT


@each_case((True, 5), (False, 1))
def test_a_report_ends_the_waiting_for_a_snapshot(is_delivered, next_index):
    raft = with_snapshot_under_way()
    raft.report_snapshot(3, is_delivered=is_delivered)
    progress = raft.progress(3)
    assert (progress.flow, progress.next, progress.is_paused) == (ProgressState.PROBE, next_index, True)


def test_a_snapshot_without_an_answer_is_doubted_in_the_second_round():
    raft = with_snapshot_under_way()
    raft._leadership.recheck_snapshots()
    assert raft.progress(3).flow is ProgressState.SNAPSHOT
    raft._leadership.recheck_snapshots()
    assert (raft.progress(3).flow, raft.progress(3).next) == (ProgressState.PROBE, 5)


# Limits


def test_proposals_that_wait_have_a_size():
    raft = following(leader(uncommitted_size_max=20), 2)
    raft.propose(b"x" * 10)
    raft.propose(b"x" * 10)
    with pytest.raises(ProposalsFull):
        raft.propose(b"x")
    drain(raft)
    raft.step(Appended(2, 1, 1, 2))
    raft.propose(b"x" * 10)


def test_one_proposal_may_be_larger_than_the_limit():
    raft = following(leader(uncommitted_size_max=20), 2)
    raft.propose(b"x" * 100)
    with pytest.raises(ProposalsFull):
        raft.propose(b"x")


# Reads


def test_a_read_is_confirmed_by_a_majority():
    group = Group()
    raft = group.elect(1)
    raft.read("a")
    assert group.reads[1] == []
    group.settle()
    assert group.reads[1] == [ReadState("a", 1)]


def test_an_unheard_leader_confirms_no_read():
    group = Group()
    raft = group.elect(1)
    group.cut = {1}
    raft.read("a")
    group.settle()
    assert group.reads[1] == []


def test_an_answer_to_an_older_heartbeat_confirms_no_read():
    raft = following(leader(), 2)
    raft.read("a")
    drain(raft)
    raft.step(HeartbeatAnswer(2, 1, 1, 0))
    assert [ready for ready in drain(raft) if ready.reads] == []


def test_a_read_before_the_terms_first_commit_waits_for_it():
    raft = leader(1, 1, commit=1)
    raft.read("a")
    raft.step(HeartbeatAnswer(2, 1, 2, 1))
    assert [read for ready in drain(raft) for read in ready.reads] == []
    raft.step(Appended(2, 1, 2, 3))
    sent = said(raft)
    assert Heartbeat(1, 2, 2, 3, read_round=1) in sent
    raft.step(HeartbeatAnswer(2, 1, 2, 1))
    assert [read for ready in drain(raft) for read in ready.reads] == [ReadState("a", 3)]


def test_heartbeats_name_no_commit_beyond_what_the_follower_has():
    raft = following(leader(heartbeat_ticks=2), 2)
    raft.tick()
    assert said(raft) == []
    raft.tick()
    assert said(raft) == [Heartbeat(1, 2, 1, 1), Heartbeat(1, 3, 1, 0)]


# Handing the office over


def test_a_follower_that_is_behind_catches_up_before_it_is_told_to_campaign():
    raft = following(leader(), 2)
    raft.propose(b"a")
    drain(raft)
    raft.transfer(2)
    assert said(raft) == [Append(1, 2, 1, Position(2, 1), (), 1)]
    raft.step(Appended(2, 1, 1, 2))
    assert CampaignNow(1, 2, 1) in said(raft)


def test_there_is_one_transfer_at_a_time():
    raft = following(leader(), 2)
    raft.transfer(2)
    with pytest.raises(NotLeader):
        raft.transfer(3)


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


def test_heartbeats_name_no_round_without_a_waiter():
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
