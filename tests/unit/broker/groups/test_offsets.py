from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from orbitmq.broker.groups.offsets import UNKNOWN, GroupOffsets


def test_a_queue_without_a_commit_is_unknown() -> None:
    assert GroupOffsets().query("g", "t", 0) == UNKNOWN


def test_a_commit_is_read_back_by_its_group_only() -> None:
    offsets = GroupOffsets()
    offsets.commit("g", "t", 3, 42, offset_max=100)
    assert offsets.query("g", "t", 3) == 42
    assert offsets.query("other", "t", 3) == UNKNOWN
    assert offsets.query("g", "t", 4) == UNKNOWN


@given(offset=st.integers(-(2**63), 2**63 - 1), end=st.integers(0, 2**62))
def test_issue_4771_a_committed_offset_is_never_beyond_the_queue(offset: int, end: int) -> None:
    offsets = GroupOffsets()
    assert 0 <= offsets.commit("g", "t", 0, offset, offset_max=end) <= end
    assert 0 <= offsets.query("g", "t", 0) <= end


def test_offsets_past_a_log_that_a_crash_cut_are_pulled_back() -> None:
    offsets = GroupOffsets({"t@g": {0: 10, 1: 99}})
    assert offsets.cut_to(lambda topic, queue_id: 20) == ["t@g queue 1: 99 -> 20"]
    assert offsets.query("g", "t", 1) == 20
    assert offsets.query("g", "t", 0) == 10
    assert offsets.cut_to(lambda topic, queue_id: 20) == []


def test_the_change_count_moves_only_with_changes() -> None:
    offsets = GroupOffsets()
    offsets.commit("g", "t", 0, 5, offset_max=9)
    before = offsets.change_count
    offsets.commit("g", "t", 0, 5, offset_max=9)
    assert offsets.change_count == before
    offsets.commit("g", "t", 0, 6, offset_max=9)
    assert offsets.change_count > before


def test_topics_and_groups_are_forgotten_by_name() -> None:
    offsets = GroupOffsets({"t@g": {0: 1}, "t@h": {0: 2}, "u@g": {0: 3}, "%RETRY%g@g": {0: 4}})
    assert offsets.groups_of("t") == ["g", "h"]
    assert offsets.topics_of("g") == ["t", "u", "%RETRY%g"]
    offsets.forget_topic("t")
    assert set(offsets.all) == {"u@g", "%RETRY%g@g"}
    offsets.forget_group("g")
    assert not offsets.all


def test_every_change_counts_also_a_cut_and_a_removal() -> None:
    offsets = GroupOffsets({"t@g": {0: 9}, "t@h": {0: 9}, "u@g": {0: 9}})
    counts = [offsets.change_count]
    offsets.cut_to(lambda topic, queue_id: 5)
    counts.append(offsets.change_count)
    offsets.forget_topic("u")
    counts.append(offsets.change_count)
    offsets.forget_group("h")
    counts.append(offsets.change_count)
    assert counts == sorted(set(counts))
    assert dict(offsets.all) == {"t@g": {0: 5}}
    offsets.forget_topic("none")
    assert offsets.change_count == counts[-1]


def test_nothing_is_kept_of_lmqs_without_messages() -> None:
    offsets = GroupOffsets()
    assert offsets.commit("g", "%LMQ%a", 0, 5, offset_max=0) == 0
    assert offsets.commit("g", "t", 0, 5, offset_max=0) == 0
    assert (list(offsets.all), offsets.change_count) == (["t@g"], 1)
