"""The log of one node: what fits, what is cut, what a hint says."""

import pytest

from cases import each_case
from orbitmq.errors import LogDiverged
from orbitmq.raft import Entry, HardState, Position, Saved, Snapshot
from orbitmq.raft.log import RaftLog


def entries(first, *terms, size=1):
    return tuple(Entry(first + i, term, b"x" * size) for i, term in enumerate(terms))


def log(*terms, commit=0, snapshot=None):
    first = snapshot.position.index + 1 if snapshot else 1
    return RaftLog(Saved(HardState(9, 0, commit), snapshot, entries(first, *terms)))


def terms_of(found):
    return [found.position(index).term for index in range(found.base.index + 1, found.last.index + 1)]


def test_an_empty_log_ends_before_the_first_entry():
    empty = log()
    assert empty.last == Position(0, 0)
    assert empty.matches(Position(0, 0))
    assert empty.position(1) is None
    assert empty.unstable == ()


def test_a_saved_log_is_on_the_disk_and_not_applied():
    found = log(1, 1, 2, commit=2)
    assert (found.last, found.stable, found.commit, found.applied) == (Position(3, 2), 3, 2, 0)


def test_a_saved_log_begins_behind_its_snapshot():
    snapshot = Snapshot(Position(2, 1), b"state")
    found = RaftLog(Saved(HardState(3, 0, 1), snapshot, entries(1, 1, 1, 2)))
    assert (found.base, found.last) == (Position(2, 1), Position(3, 2))
    assert (found.commit, found.applied) == (2, 2)


@each_case(
    Saved(HardState(1, 0, 0), None, entries(2, 1)), Saved(HardState(1, 0, 0), None, (*entries(1, 1), *entries(3, 1)))
)
def test_a_disk_that_has_lost_entries_is_refused(saved):
    with pytest.raises(LogDiverged):
        RaftLog(saved)


def test_a_saved_commit_index_is_a_hint():
    assert RaftLog(Saved(HardState(1, 0, 4), None, entries(1, 1, 1, 1))).commit == 3


def test_entries_that_fit_are_appended():
    found = log(1, 1)
    assert found.merge(Position(2, 1), entries(3, 2, 2)) == 4
    assert terms_of(found) == [1, 1, 2, 2]
    assert [entry.index for entry in found.unstable] == [3, 4]


@each_case(Position(3, 1), Position(2, 2), Position(9, 1))
def test_entries_behind_another_history_are_refused(previous):
    found = log(1, 1)
    assert found.merge(previous, entries(previous.index + 1, 2)) is None
    assert terms_of(found) == [1, 1]


def test_entries_that_contradict_are_replaced_with_all_that_follow():
    found = log(1, 1, 1, 1)
    assert found.merge(Position(1, 1), entries(2, 1, 2)) == 3
    assert terms_of(found) == [1, 1, 2]
    assert (found.stable, [entry.index for entry in found.unstable]) == (2, [3])


def test_an_old_append_cuts_nothing():
    found = log(1, 1, 1, 1)
    assert found.merge(Position(0, 0), entries(1, 1, 1)) == 2
    assert (found.last.index, found.stable) == (4, 4)


def test_a_committed_entry_is_never_cut():
    found = log(1, 1, commit=2)
    with pytest.raises(LogDiverged, match="entry 2"):
        found.merge(Position(1, 1), entries(2, 2))
    assert terms_of(found) == [1, 1]


def test_the_commit_index_moves_forward_and_not_beyond_the_log():
    found = log(1, 1, 1)
    found.commit_to(2)
    found.commit_to(1)
    assert found.commit == 2
    with pytest.raises(LogDiverged, match="ends at 3"):
        found.commit_to(4)


@each_case(
    (5, 5, Position(4, 4)),
    (9, 9, Position(5, 6)),
    (4, 3, Position(3, 3)),
    (5, 1, Position(2, 1)),
    (2, 0, Position(0, 0)),
    (0, 0, Position(0, 0)),
)
def test_a_hint_is_the_last_entry_of_a_term_that_is_not_higher(index, term, hint):
    assert log(1, 1, 3, 4, 6).conflict_hint(index, term) == hint


def test_a_hint_before_the_begin_of_the_log_knows_no_term():
    found = log(5, snapshot=Snapshot(Position(7, 4), b""))
    assert found.conflict_hint(8, 4) == Position(7, 4)
    assert found.conflict_hint(8, 3) == Position(6, 0)


def test_a_piece_of_the_log_has_a_size_and_at_least_one_entry():
    found = RaftLog(Saved(HardState(), None, entries(1, 1, 1, 1, size=10)))
    assert len(found.between(1, 3)) == 3
    assert len(found.between(1, 3, 30)) == 3
    assert len(found.between(1, 3, 29)) == 2
    assert len(found.between(1, 3, 1)) == 1
    assert found.between(2, 1) == found.between(4, 9, 100) == ()
    assert [entry.index for entry in found.between(2, 9, 100)] == [2, 3]


def test_only_what_was_written_and_is_still_there_is_on_the_disk():
    found = log()
    found.merge(Position(0, 0), entries(1, 1, 1))
    written = found.unstable[-1].position
    found.merge(Position(1, 1), entries(2, 2))
    found.persisted(written)
    assert found.stable == 0
    found.persisted(Position(2, 2))
    assert found.stable == 2
    found.persisted(Position(1, 1))
    assert found.stable == 2


def test_a_snapshot_takes_the_place_of_applied_entries():
    found = log(1, 1, 2, 2, commit=4)
    found.applied = 3
    snapshot = found.compact(3, b"state", keep=0)
    assert snapshot == found.snapshot == Snapshot(Position(3, 2), b"state")
    assert (found.base, found.last) == (Position(3, 2), Position(4, 2))
    assert found.position(2) is None
    assert found.pending_snapshot is None


def test_some_entries_before_a_snapshot_stay_for_slow_followers():
    found = log(1, 1, 2, 2, commit=4)
    found.applied = 4
    found.compact(4, b"", keep=2)
    assert found.base == Position(2, 1)
    found.compact(4, b"", keep=9)
    assert found.base == Position(2, 1)


def test_a_leaders_snapshot_takes_the_place_of_the_whole_log():
    found = log(1, 1, commit=1)
    snapshot = Snapshot(Position(9, 4), b"state")
    found.restore(snapshot)
    assert found.base == found.last == Position(9, 4)
    assert (found.stable, found.commit, found.applied) == (9, 9, 9)
    assert found.pending_snapshot == found.snapshot == snapshot
