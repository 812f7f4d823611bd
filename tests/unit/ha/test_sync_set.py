from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from orbitmq.ha.sync_set import BEHIND_MS, LOST_MS, REFUSED_MS, SyncSet

ALL, PAIR, ALONE = frozenset({1, 2, 3}), frozenset({1, 2}), frozenset({1})


def sync_set(ids: frozenset[int] = ALL) -> SyncSet:
    return SyncSet(1, ids, 7, now_ms=0)


def test_slaves_of_the_set_must_have_a_message() -> None:
    assert sync_set().needed == {2, 3}
    assert sync_set(ALONE).needed == frozenset()


def test_a_member_without_a_connection_is_proposed_out_and_counts_until_the_controller_knows() -> None:
    seen = sync_set()
    assert seen.decide({2: 100}, 100, 100, LOST_MS - 1) is None
    assert seen.decide({2: 100}, 100, 100, LOST_MS) == PAIR
    assert seen.needed == {2, 3}
    assert seen.decide({2: 100}, 100, 100, LOST_MS + 1) is None
    seen.told(PAIR, 8, LOST_MS + 2)
    assert seen.needed == {2}
    assert seen.epoch == 8


def test_a_member_that_does_not_come_to_the_end_is_proposed_out() -> None:
    seen = sync_set(PAIR)
    for now_ms in range(0, BEHIND_MS, 100):
        assert seen.decide({2: 50 + now_ms // 1000}, 100 + now_ms, 50, now_ms) is None
    assert seen.decide({2: 52}, 2_000, 50, BEHIND_MS) == ALONE


def test_a_member_that_is_always_a_little_behind_stays() -> None:
    seen = sync_set(PAIR)
    for now_ms in range(0, 10 * BEHIND_MS, 100):
        assert seen.decide({2: 100 + now_ms - 150}, 100 + now_ms, 0, now_ms) is None


def test_a_slave_counts_before_it_is_proposed_and_is_proposed_when_it_has_what_was_acknowledged() -> None:
    seen = sync_set(ALONE)
    assert seen.decide({2: 90}, 100, 100, 0) is None
    assert seen.needed == frozenset()
    assert seen.decide({2: 100}, 200, 200, 100) is None
    assert seen.needed == {2}
    assert seen.decide({2: 199}, 300, 200, 200) is None
    assert seen.decide({2: 200}, 300, 200, 300) == PAIR
    assert seen.needed == {2}
    seen.told(PAIR, 8, 300)
    assert seen.needed == {2}


def test_a_slave_that_leaves_while_it_joins_counts_no_more() -> None:
    seen = sync_set(ALONE)
    seen.decide({2: 100}, 200, 200, 0)
    seen.decide({2: 100}, 200, 200, 1)
    seen.decide({}, 200, 200, 2)
    assert seen.needed == frozenset()


def test_what_becomes_of_a_proposal_is_not_guessed() -> None:
    seen = sync_set(ALONE)
    assert seen.decide({2: 100}, 100, 100, 0) == PAIR
    for now_ms in (100, 100_000):
        assert seen.decide({}, 500, 100, now_ms) is None
        assert seen.needed == {2}
    seen.settled(PAIR, ALONE, 7, 100_000)
    assert seen.decide({}, 500, 100, 100_000) is None
    assert seen.needed == frozenset()


def test_the_set_that_is_asked_for_meanwhile_says_nothing_of_a_proposal() -> None:
    seen = sync_set(ALONE)
    assert seen.decide({2: 100}, 100, 100, 0) == PAIR
    seen.told(ALONE, 7, 10)
    seen.decide({}, 100, 100, 20)
    assert seen.needed == {2}
    seen.told(PAIR, 8, 30)
    assert seen.proposed is None


def test_an_answer_says_nothing_of_a_later_proposal() -> None:
    seen = sync_set(ALONE)
    assert seen.decide({2: 100}, 100, 100, 0) == PAIR
    seen.told(PAIR, 8, 10)
    assert seen.decide({2: 100, 3: 100}, 100, 100, 20) == ALL
    seen.settled(PAIR, PAIR, 8, 30)
    assert seen.proposed == ALL


def test_a_slave_that_stands_still_while_it_joins_counts_no_more() -> None:
    seen = sync_set(ALONE)
    seen.decide({2: 100}, 200, 200, 0)
    seen.decide({2: 200}, 300, 300, 100)
    for now_ms in range(100, 100 + LOST_MS, 100):
        assert seen.decide({2: 250}, 300, 300, now_ms) is None
        assert seen.needed == {2}
    assert seen.decide({2: 250}, 300, 300, 100 + LOST_MS) is None
    assert seen.needed == frozenset()


def test_a_slave_that_the_controllers_refuse_keeps_no_other_out() -> None:
    seen = sync_set(ALONE)
    ends = {2: 100, 3: 100}
    first = seen.decide(ends, 100, 100, 0)
    assert first == PAIR
    seen.settled(first, ALONE, 7, 0)
    assert seen.decide(ends, 100, 100, 100) == frozenset({1, 3})
    assert seen.needed == {3}
    seen.told(frozenset({1, 3}), 8, 100)
    for now_ms in range(200, REFUSED_MS, 100):
        assert seen.decide(ends, 100, 100, now_ms) is None
        assert seen.needed == {3}
    assert seen.decide(ends, 100, 100, REFUSED_MS) == ALL


def test_an_older_set_is_left_out() -> None:
    seen = sync_set(PAIR)
    seen.told(ALONE, 6, 0)
    assert seen.ids == PAIR


@given(
    st.lists(
        st.tuples(
            st.dictionaries(st.sampled_from([2, 3]), st.integers(0, 400)),
            st.integers(0, 50),
            st.integers(1, 900),
            st.sampled_from(["lost", "done", "refused", "late", "asked for"]),
        ),
        max_size=40,
    )
)
def test_every_set_that_the_controller_may_have_is_covered(
    steps: list[tuple[dict[int, int], int, int, str]],
) -> None:
    """The controller may have the set that it told, or the one that it was asked for; members of both must have a message."""
    seen, log_end, confirmed, now_ms = sync_set(ALONE), 0, 0, 0
    possible = [seen.ids]
    have: dict[int, int] = {}
    for ends, growth, pause_ms, answer in steps:
        now_ms += pause_ms
        log_end += growth
        have = {member: max(have.get(member, 0), min(end, log_end)) for member, end in ends.items()}
        proposal = seen.decide(have, log_end, confirmed, now_ms)
        if proposal is not None:
            assert 1 in proposal
            assert all(have[member] >= confirmed for member in proposal - seen.ids)
            possible.append(proposal)
        for members in possible:
            assert members - {1} <= seen.needed
        if not seen.needed - have.keys():
            confirmed = max(confirmed, min([have[member] for member in seen.needed], default=log_end))
        if seen.proposed is not None and answer == "done":
            seen.told(seen.proposed, seen.epoch + 1, now_ms)
            possible = [seen.ids]
        elif seen.proposed is not None and answer == "refused":
            seen.settled(seen.proposed, seen.ids, seen.epoch, now_ms)
            possible = [seen.ids]
        elif answer == "asked for":
            seen.told(seen.ids, seen.epoch, now_ms)
