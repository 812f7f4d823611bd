"""One node: terms, votes, roles, and the order of what it asks for."""

import pytest

from cases import each_case
from orbitmq.errors import InvalidArgument, LogDiverged, NotLeader
from orbitmq.raft import (
    Append,
    Appended,
    AppendRejected,
    CampaignNow,
    Entry,
    HardState,
    Heartbeat,
    HeartbeatAnswer,
    InstallSnapshot,
    Position,
    PreVoteAnswer,
    PreVoteRequest,
    Raft,
    Role,
    Saved,
    Snapshot,
    VoteAnswer,
    VoteRequest,
)
from unit.raft.group import Group, drain, node, said, saved, settings

ORIGIN = Position(0, 0)


def test_a_new_node_follows_no_leader_and_has_nothing_to_do():
    raft = node()
    assert (raft.role, raft.leader, raft.term, raft.id) == (Role.FOLLOWER, None, 0, 1)
    assert raft.take_ready() is None


# Elections


def test_silence_makes_a_node_ask_whether_it_would_win_without_a_new_term():
    raft = node(election_ticks=4)
    for _ in range(3):
        raft.tick()
    assert raft.take_ready() is None
    raft.tick()
    assert (raft.role, raft.term) == (Role.PRE_CANDIDATE, 0)
    assert said(raft) == [PreVoteRequest(1, peer, 1, ORIGIN) for peer in (2, 3)]


def test_time_outs_are_drawn_between_one_and_two_election_times():
    raft = Raft(settings(election_ticks=4), Saved(), lambda limit: limit - 1)
    roles = []
    for _ in range(7):
        raft.tick()
        roles.append(raft.role)
    assert roles == [Role.FOLLOWER] * 6 + [Role.PRE_CANDIDATE]


def test_a_follower_does_not_wait_for_the_silence_of_a_leader_whose_process_ended():
    group = Group(election_ticks=10)
    group.elect(1)
    group.cut.add(1)
    for id in (2, 3):
        group[id].report_ended(3)
        group[id].report_ended(1)
    group[2].tick()
    group.settle()
    assert (group[2].role, group[3].leader) == (Role.LEADER, 2)


def test_a_leader_that_lives_keeps_its_term_when_one_follower_takes_it_for_ended():
    group = Group(election_ticks=10)
    group.elect(1)
    group[2].report_ended(1)
    group[2].tick()
    group.settle()
    assert (group[1].role, group[1].term) == (Role.LEADER, 1)


def test_a_won_pre_vote_begins_the_term_that_was_asked_for():
    raft = node()
    raft.campaign()
    raft.step(PreVoteAnswer(2, 1, 1, is_granted=True))
    assert (raft.role, raft.term, raft.vote) == (Role.CANDIDATE, 1, 1)
    assert VoteRequest(1, 3, 1, ORIGIN) in said(raft)


def test_a_candidates_own_vote_counts_when_it_is_on_its_disk():
    raft = node(voters=1)
    raft.campaign()
    ready = raft.take_ready()
    assert (ready.hard_state, ready.must_sync) == (HardState(1, 1, 0), True)
    roles = [raft.role]
    raft.advance()
    assert [*roles, raft.role] == [Role.CANDIDATE, Role.LEADER]


def test_a_majority_makes_a_leader_that_marks_its_term():
    group = Group(5)
    group.cut = {4, 5}
    leader = group.elect(1)
    assert (leader.term, leader.leader) == (1, 1)
    assert leader.log.position(1) == Position(1, 1)
    assert group[2].leader == 1


def test_a_lost_election_ends_the_campaign():
    raft = node(pre_vote=False)
    raft.campaign()
    drain(raft)
    for voter in (2, 3):
        raft.step(VoteAnswer(voter, 1, 1, is_granted=False))
    assert (raft.role, raft.leader) == (Role.FOLLOWER, None)


def test_answers_to_pre_votes_are_no_votes():
    raft = node(voters=5, pre_vote=False)
    raft.campaign()
    drain(raft)
    for voter in (2, 3, 4):
        raft.step(PreVoteAnswer(voter, 1, 1, is_granted=True))
    assert raft.role is Role.CANDIDATE


def test_a_vote_is_given_once_in_a_term_and_repeated_to_the_same():
    raft = node()
    for candidate in (2, 3, 2):
        raft.step(VoteRequest(candidate, 1, 1, ORIGIN))
    assert said(raft) == [
        VoteAnswer(1, 2, 1, is_granted=True),
        VoteAnswer(1, 3, 1, is_granted=False),
        VoteAnswer(1, 2, 1, is_granted=True),
    ]
    assert raft.vote == 2


def test_a_vote_survives_a_restart():
    raft = node(saved=saved(term=1, vote=2))
    raft.step(VoteRequest(3, 1, 1, ORIGIN))
    assert said(raft) == [VoteAnswer(1, 3, 1, is_granted=False)]


def test_a_vote_is_on_the_disk_before_the_answer_leaves():
    raft = node()
    raft.step(VoteRequest(2, 1, 1, ORIGIN))
    ready = raft.take_ready()
    assert (ready.hard_state, ready.must_sync) == (HardState(1, 2, 0), True)
    assert ready.messages == (VoteAnswer(1, 2, 1, is_granted=True),)


def test_a_candidate_with_an_older_log_gets_no_vote_and_no_pre_vote():
    raft = node(saved=saved(Entry(1, 2, b"x"), term=2))
    raft.step(VoteRequest(2, 1, 3, Position(9, 1)))
    raft.step(PreVoteRequest(2, 1, 4, Position(9, 1)))
    assert said(raft) == [VoteAnswer(1, 2, 3, is_granted=False), PreVoteAnswer(1, 2, 3, is_granted=False)]
    assert raft.vote == 0


def test_a_pre_vote_promises_nothing():
    raft = node()
    for candidate in (2, 3):
        raft.step(PreVoteRequest(candidate, 1, 1, ORIGIN))
    assert said(raft) == [PreVoteAnswer(1, candidate, 1, is_granted=True) for candidate in (2, 3)]
    assert (raft.term, raft.vote) == (0, 0)


def test_a_node_that_hears_from_its_leader_gives_no_vote_even_for_a_newer_term():
    raft = node(election_ticks=4)
    raft.step(Heartbeat(2, 1, 1, 0))
    drain(raft)
    raft.step(VoteRequest(3, 1, 9, ORIGIN))
    raft.step(PreVoteRequest(3, 1, 9, ORIGIN))
    assert raft.take_ready() is None
    assert raft.term == 1


def test_the_leaders_own_wish_is_a_reason_to_vote():
    raft = node()
    raft.step(Heartbeat(2, 1, 1, 0))
    drain(raft)
    raft.step(VoteRequest(3, 1, 2, ORIGIN, is_transfer=True))
    assert said(raft) == [VoteAnswer(1, 3, 2, is_granted=True)]


def test_after_an_election_time_of_silence_votes_are_given_again():
    raft = Raft(settings(election_ticks=4), Saved(), lambda limit: limit - 1)
    raft.step(Heartbeat(2, 1, 1, 0))
    for _ in range(4):
        raft.tick()
    raft.step(VoteRequest(3, 1, 2, ORIGIN))
    assert VoteAnswer(1, 3, 2, is_granted=True) in said(raft)


def test_a_given_vote_restarts_the_wait():
    raft = node(election_ticks=4)
    for _ in range(3):
        raft.tick()
    raft.step(VoteRequest(2, 1, 1, ORIGIN))
    raft.tick()
    assert raft.role is Role.FOLLOWER


def test_a_refused_pre_vote_of_a_newer_term_brings_that_term():
    raft = node()
    raft.campaign()
    raft.step(PreVoteAnswer(2, 1, 7, is_granted=False))
    assert (raft.role, raft.term) == (Role.FOLLOWER, 7)


# Terms


def test_a_newer_term_deposes_a_leader():
    group = Group()
    leader = group.elect(1)
    leader.step(Appended(2, 1, 5, 0))
    assert (leader.role, leader.term, leader.leader, leader.vote) == (Role.FOLLOWER, 5, None, 0)
    with pytest.raises(NotLeader):
        leader.propose(b"x")


def test_a_message_of_a_newer_leader_names_it():
    raft = node()
    raft.step(Heartbeat(3, 1, 4, 0))
    assert (raft.term, raft.leader) == (4, 3)


@each_case(Heartbeat(2, 1, 3, 0), Append(2, 1, 3, ORIGIN, (), 0))
def test_a_leader_of_an_older_term_is_told_of_the_newer_one(message):
    raft = node(saved=saved(term=5))
    raft.step(message)
    assert said(raft) == [Appended(1, 2, 5, 0)]


def test_a_plain_group_ignores_older_leaders():
    raft = node(saved=saved(term=5), pre_vote=False, check_quorum=False)
    raft.step(Heartbeat(2, 1, 3, 0))
    raft.step(VoteAnswer(2, 1, 3, is_granted=True))
    assert said(raft) == []


def test_a_pre_vote_for_an_older_term_is_refused_with_the_newer_one():
    raft = node(saved=saved(term=5))
    raft.step(PreVoteRequest(2, 1, 3, ORIGIN))
    assert said(raft) == [PreVoteAnswer(1, 2, 5, is_granted=False)]


def test_messages_of_strangers_and_for_others_are_dropped():
    raft = node()
    for sender, receiver in ((9, 1), (2, 3), (1, 1)):
        raft.step(VoteRequest(sender, receiver, 7, ORIGIN))
    assert (raft.term, raft.take_ready()) == (0, None)


def test_a_candidate_follows_the_leader_of_its_term():
    raft = node(pre_vote=False)
    raft.campaign()
    raft.step(Append(2, 1, 1, ORIGIN, (Entry(1, 1, b""),), 0))
    assert (raft.role, raft.leader) == (Role.FOLLOWER, 2)
    assert Appended(1, 2, 1, 1) in said(raft)


def test_a_leader_ignores_who_else_calls_itself_leader_of_its_term():
    leader = Group().elect(1)
    leader.step(Heartbeat(2, 1, 1, 0))
    assert leader.role is Role.LEADER


# Following


def test_entries_are_on_the_disk_before_they_are_acknowledged():
    raft = node()
    entries = (Entry(1, 1, b"a"), Entry(2, 1, b"b"))
    raft.step(Append(2, 1, 1, ORIGIN, entries, 1))
    ready = raft.take_ready()
    assert (ready.entries, ready.must_sync) == (entries, True)
    assert ready.messages == (Appended(1, 2, 1, 2),)
    assert ready.committed == entries[:1]


def test_what_came_while_the_disk_worked_is_asked_for_next():
    raft = node()
    raft.step(Append(2, 1, 1, ORIGIN, (Entry(1, 1, b"a"),), 0))
    raft.take_ready()
    raft.step(Append(2, 1, 1, Position(1, 1), (Entry(2, 1, b"b"),), 0))
    raft.advance()
    assert raft.take_ready().entries == (Entry(2, 1, b"b"),)


def test_an_append_commits_no_further_than_it_compared():
    raft = node(saved=saved(Entry(1, 1, b"a"), Entry(2, 1, b"mine"), term=1))
    raft.step(Append(2, 1, 2, ORIGIN, (Entry(1, 1, b"a"),), 2))
    assert raft.log.commit == 1


def test_an_append_that_does_not_fit_is_answered_with_a_hint():
    raft = node(saved=saved(Entry(1, 1, b"a"), Entry(2, 3, b"b"), term=3))
    raft.step(Append(2, 1, 4, Position(5, 2), (), 0))
    assert said(raft) == [AppendRejected(1, 2, 4, 5, Position(1, 1))]


def test_an_append_before_the_commit_index_is_answered_with_it():
    raft = node(saved=saved(Entry(1, 1, b"a"), Entry(2, 1, b"b"), term=1, commit=2))
    raft.step(Append(2, 1, 1, Position(1, 1), (Entry(2, 1, b"b"),), 2))
    assert said(raft) == [Appended(1, 2, 1, 2)]


def test_a_heartbeat_moves_the_commit_index_and_is_answered_with_its_round():
    raft = node(saved=saved(Entry(1, 1, b"a"), term=1))
    raft.step(Heartbeat(2, 1, 1, 1, read_round=3))
    (ready,) = drain(raft)
    assert ready.messages == (HeartbeatAnswer(1, 2, 1, 3),)
    assert ready.committed == (Entry(1, 1, b"a"),)
    assert not ready.must_sync
    assert ready.hard_state == HardState(1, 0, 1)


def test_a_node_that_lost_what_it_acknowledged_stops():
    raft = node()
    with pytest.raises(LogDiverged):
        raft.step(Heartbeat(2, 1, 1, 4))


def test_a_snapshot_takes_the_place_of_a_log_that_lacks_it():
    raft = node(saved=saved(Entry(1, 1, b"a"), term=1))
    snapshot = Snapshot(Position(9, 2), b"state")
    raft.step(InstallSnapshot(2, 1, 2, snapshot))
    (ready,) = drain(raft)
    assert (ready.snapshot, ready.must_sync) == (snapshot, True)
    assert ready.messages == (Appended(1, 2, 2, 9),)
    assert raft.log.last == Position(9, 2)


def test_a_snapshot_of_what_the_log_has_only_commits_it():
    raft = node(saved=saved(*(Entry(index, 1, b"x") for index in (1, 2, 3)), term=1))
    raft.step(InstallSnapshot(2, 1, 1, Snapshot(Position(2, 1), b"state")))
    (ready,) = drain(raft)
    assert ready.snapshot is None
    assert (raft.log.last.index, raft.log.commit) == (3, 2)
    assert ready.messages == (Appended(1, 2, 1, 2),)


def test_an_old_snapshot_changes_nothing():
    raft = node(saved=saved(Entry(1, 1, b"a"), term=1, commit=1))
    raft.step(InstallSnapshot(2, 1, 1, Snapshot(Position(1, 1), b"state")))
    assert said(raft) == [Appended(1, 2, 1, 1)]
    assert raft.log.snapshot is None


# The driver


def test_a_ready_comes_after_the_one_before_is_done():
    raft = node()
    raft.step(Heartbeat(2, 1, 1, 0))
    raft.take_ready()
    with pytest.raises(AssertionError):
        raft.take_ready()
    raft.advance()
    with pytest.raises(AssertionError):
        raft.advance()


def test_a_restarted_node_applies_again_what_was_committed():
    entries = tuple(Entry(index, 1, b"x") for index in (1, 2, 3))
    raft = node(saved=saved(*entries, term=1, commit=2))
    (ready,) = drain(raft)
    assert ready.committed == entries[:2]
    assert raft.log.applied == 2


def test_committed_entries_come_in_batches():
    entries = tuple(Entry(index, 1, b"x" * 10) for index in (1, 2, 3))
    raft = node(saved=saved(*entries, term=1, commit=3), batch_size_max=20)
    assert [len(ready.committed) for ready in drain(raft)] == [2, 1]


def test_applied_entries_can_be_cut_off_and_no_others():
    raft = node(saved=saved(*(Entry(index, 1, b"x") for index in (1, 2, 3)), term=1, commit=2))
    with pytest.raises(InvalidArgument, match="from 1 to 0"):
        raft.compact(1, b"")
    drain(raft)
    snapshot = raft.compact(2, b"state")
    assert snapshot == Snapshot(Position(2, 1), b"state")
    with pytest.raises(InvalidArgument, match="from 3 to 2"):
        raft.compact(2, b"again")
    again = node(saved=Saved(HardState(1, 0, 2), snapshot, (Entry(3, 1, b"x"),)))
    assert again.log.last == Position(3, 1)


def test_a_followers_wishes_name_the_leader():
    group = Group()
    group.elect(2)
    for wish in (lambda: group[1].propose(b"x"), lambda: group[1].read("r"), lambda: group[1].transfer(3)):
        with pytest.raises(NotLeader) as refusal:
            wish()
        assert refusal.value.leader == 2
    with pytest.raises(NotLeader):
        group[1].progress(2)


def test_proposals_have_bytes():
    with pytest.raises(InvalidArgument):
        Group().elect(1).propose(b"")


# Leading


@each_case(
    ({2, 3}, True, 8, (Role.FOLLOWER, None)), ({3}, True, 40, (Role.LEADER, 1)), ({2, 3}, False, 40, (Role.LEADER, 1))
)
def test_a_leader_without_a_majority_steps_down_if_it_checks(cut, check_quorum, ticks, found):
    group = Group(election_ticks=4, check_quorum=check_quorum)
    leader = group.elect(1)
    group.cut = cut
    for _ in range(ticks):
        leader.tick()
        group.settle()
    assert (leader.role, leader.leader) == found


def test_a_transfer_makes_the_other_one_leader_immediately():
    group = Group()
    leader = group.elect(1)
    leader.transfer(3)
    assert leader.transferee == 3
    assert CampaignNow(1, 3, 1) in leader._leadership.messages
    group.settle()
    assert (group[3].role, group[3].term, leader.role, leader.leader) == (Role.LEADER, 2, Role.FOLLOWER, 3)


@each_case(1, 9)
def test_the_office_is_handed_to_another_voter(to):
    with pytest.raises(InvalidArgument):
        Group().elect(1).transfer(to)


def test_a_transfer_that_fails_ends_after_an_election_time():
    group = Group(election_ticks=4)
    leader = group.elect(1)
    group.cut = {3}
    leader.transfer(3)
    group.settle()
    with pytest.raises(NotLeader) as refusal:
        leader.propose(b"x")
    assert refusal.value.leader == 3
    for _ in range(4):
        leader.tick()
        group.settle()
    assert leader.transferee is None
    leader.propose(b"x")
    group.settle()
    assert group.applied[2] == [b"x"]


def test_reports_reach_a_leader_only_and_only_of_peers():
    group = Group()
    leader = group.elect(1)
    for peer in (1, 2, 9):
        leader.report_unreachable(peer)
        leader.report_snapshot(peer, is_delivered=False)
        group[2].report_unreachable(peer)
        group[2].report_snapshot(peer, is_delivered=True)
    assert leader.progress(2).flow.value == "probe"
    assert leader.progress(3).flow.value == "replicate"
