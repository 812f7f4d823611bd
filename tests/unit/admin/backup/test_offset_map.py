import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.admin.backup.offset_map import OffsetMap, Run
from orbitmq.errors import InvalidArgument

gaps = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3)), max_size=30)


@given(st.integers(0, 50), st.integers(0, 50), gaps, st.integers(0, 200))
def test_a_group_goes_on_at_the_first_message_that_it_had_not_read(begin, base, steps, committed):
    offsets, places = OffsetMap(base), {}
    old, new = begin, base
    for old_step, new_step in steps:
        offsets.add(old, new)
        places[old] = new
        old, new = old + old_step, new + new_step
    unread = [place for at, place in places.items() if at >= committed]
    assert offsets.find(committed) == (unread[0] if unread else max(places.values(), default=base - 1) + 1)
    assert offsets.count == len(places)
    assert OffsetMap(base, offsets.runs).runs == offsets.runs


def test_a_queue_that_was_cut_at_its_beginning_begins_with_its_first_message():
    offsets = OffsetMap(0, [Run(100, 0, 10)])
    assert [offsets.find(committed) for committed in (0, 99, 100, 105, 110, 500)] == [0, 0, 0, 5, 10, 10]


def test_messages_in_one_go_are_one_run():
    offsets = OffsetMap(7)
    for number in range(5):
        offsets.add(100 + number, 7 + number)
    assert offsets.runs == (Run(100, 7, 5),)
    assert (offsets.next_old, offsets.next_new) == (105, 12)


@pytest.mark.parametrize("run", [Run(0, 5, 1), Run(5, 0, 1), Run(5, 5, 0)])
def test_runs_that_go_back_are_refused(run):
    with pytest.raises(InvalidArgument):
        OffsetMap(0, [Run(3, 3, 2), run])


@pytest.mark.parametrize(("old", "new"), [(4, 9), (9, 4)])
def test_an_offset_that_does_not_grow_is_refused(old, new):
    with pytest.raises(InvalidArgument):
        OffsetMap(0, [Run(0, 0, 5)]).add(old, new)
