"""The window of a follower: probing, replicating, a snapshot."""

from cases import each_case
from orbitmq.raft import Entry
from orbitmq.raft.progress import Progress, ProgressState


def entries(first, count=1):
    return tuple(Entry(first + i, 1, b"x") for i in range(count))


def replicating(match=0, inflight_max=2):
    progress = Progress(match + 1, inflight_max)
    progress.matched(match)
    progress.replicate()
    return progress


def test_a_probe_waits_for_its_answer():
    progress = Progress(5, 8)
    progress.sent(entries(5), commit=2)
    assert progress.is_paused
    assert progress.next == 5
    progress.resume()
    assert not progress.is_paused


def test_an_empty_probe_does_not_wait():
    progress = Progress(5, 8)
    progress.sent((), commit=2)
    assert not progress.is_paused


def test_replication_runs_ahead_of_the_answers_as_far_as_it_may():
    progress = replicating(match=4, inflight_max=2)
    progress.sent(entries(5, 3), commit=4)
    assert (progress.next, progress.is_paused) == (8, False)
    progress.sent(entries(8), commit=4)
    assert (progress.next, progress.is_paused, progress.is_full) == (9, True, True)


def test_each_answer_makes_room():
    progress = replicating(inflight_max=2)
    progress.sent(entries(1), 0)
    progress.sent(entries(2), 0)
    assert progress.matched(1)
    progress.free(1)
    assert not progress.is_full
    assert not progress.is_paused


def test_an_answer_frees_all_messages_up_to_it():
    progress = replicating(inflight_max=2)
    progress.sent(entries(1), 0)
    progress.sent(entries(2), 0)
    progress.free(2)
    progress.sent(entries(3), 0)
    assert not progress.is_full


def test_after_a_heartbeats_answer_one_more_message_may_go_though_the_window_is_full():
    progress = replicating(inflight_max=1)
    progress.sent(entries(1), 0)
    progress.resume()
    assert progress.is_full
    assert not progress.is_paused
    progress.sent((), 0)
    assert progress.is_paused


def test_known_answers_say_nothing_new():
    progress = replicating(match=4)
    assert not progress.matched(4)
    assert not progress.matched(3)
    assert progress.match == 4


def test_a_match_beyond_what_was_sent_moves_next():
    progress = Progress(3, 8)
    assert progress.matched(7)
    assert progress.next == 8


@each_case((9, 4, 5), (9, 9, 9), (9, 20, 9), (9, 0, 1), (8, 4, 10), (10, 4, 10))
def test_a_rejected_probe_goes_back_to_the_hint_and_old_answers_change_nothing(rejected, hint, next_index):
    progress = Progress(10, 8)
    assert progress.rejected(rejected, hint) is (next_index != 10)
    assert progress.next == next_index


def test_a_rejected_probe_never_goes_back_behind_the_match():
    progress = Progress(10, 8)
    progress.matched(6)
    progress.probe()
    progress.next = 10
    assert progress.rejected(9, 2)
    assert progress.next == 7


def test_a_rejection_while_replicating_means_that_something_was_lost():
    progress = replicating(match=4, inflight_max=8)
    progress.sent(entries(5), 5)
    assert not progress.rejected(4, 4)
    assert progress.rejected(5, 4)
    assert (progress.flow, progress.next, progress.sent_commit) == (ProgressState.PROBE, 5, 4)


def test_nothing_is_sent_next_to_a_snapshot():
    progress = Progress(3, 8)
    progress.install(20)
    progress.resume()
    assert progress.is_paused
    assert (progress.next, progress.sent_commit) == (21, 20)


def test_after_a_snapshot_the_logs_may_agree_behind_it():
    progress = Progress(3, 8)
    progress.install(20)
    progress.probe()
    assert (progress.flow, progress.next, progress.snapshot_index) == (ProgressState.PROBE, 21, 0)


def test_a_new_flow_begins_with_an_empty_window():
    progress = replicating(inflight_max=1)
    progress.sent(entries(1), 0)
    progress.probe()
    assert not progress.is_full
    assert progress.next == 1


def test_a_commit_index_is_told_once_and_only_for_entries_that_were_sent():
    progress = replicating(match=4)
    assert progress.lacks_commit(4)
    progress.sent((), 4)
    assert not progress.lacks_commit(9)
    progress.sent(entries(5, 2), 4)
    assert progress.lacks_commit(5)
    assert not progress.lacks_commit(4)
