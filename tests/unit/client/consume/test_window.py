from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from cases import each_case
from orbitmq.client.consume.window import ProcessQueue
from orbitmq.model.message import StoredMessage


def message(queue_offset, size=100):
    return StoredMessage(
        topic="t", body=b"", properties={}, queue_id=0, queue_offset=queue_offset, physical_offset=0, store_size=size
    )


def messages(*offsets):
    return [message(offset) for offset in offsets]


def offsets(batch):
    return [found.queue_offset for found in batch]


def window_of(*offsets, next_offset=None, **limits):
    window = ProcessQueue(offsets[0], **limits)
    window.add(messages(*offsets), offsets[-1] + 1 if next_offset is None else next_offset)
    return window


def test_messages_leave_in_order():
    window = window_of(5, 6, 7)
    assert window.is_ready
    assert offsets(window.next_batch(2)) == [5, 6]
    assert offsets(window.next_batch(2)) == [7]
    assert not window.is_ready
    assert window.next_batch(2) == ()


def test_messages_given_back_come_again_in_front_one_by_one_and_count_it():
    window = window_of(0, 1, 2)
    assert window.give_back(window.next_batch(2))
    found = [window.next_batch(3) for _ in range(3)]
    assert list(map(offsets, found)) == [[0], [1], [2]]
    assert [batch[0].reconsume_times for batch in found] == [1, 1, 0]


def test_a_batch_ends_in_front_of_a_message_that_was_tried_before():
    window = ProcessQueue(0)
    window.add([message(0), replace(message(1), reconsume_times=1), message(2), message(3)], 4)
    assert [offsets(window.next_batch(10)) for _ in range(3)] == [[0], [1], [2, 3]]


def test_pulling_pauses_at_the_limit_of_messages():
    window = window_of(0, 1, count_max=2)
    assert not window.has_room
    batch = window.next_batch(2)
    assert not window.has_room
    window.settle(batch)
    assert window.has_room


def test_pulling_pauses_at_the_limit_of_bytes():
    window = ProcessQueue(0, size_max=150)
    window.add([message(0, 100)], 1)
    assert window.has_room
    window.add([message(1, 100)], 2)
    assert not window.has_room
    window.settle(window.next_batch(1))
    assert window.has_room
    assert window.size == 100


def test_a_body_counts_as_large_as_it_is_here_not_as_it_was_stored():
    window = ProcessQueue(0, size_max=1_000)
    window.add([replace(message(0, 50), body=bytes(1_000))], 1)
    assert not window.has_room
    assert window.size == 1_000


@each_case("settle", "give_back")
def test_a_message_is_settled_or_given_back_once(end):
    window = window_of(0, 1)
    batch = window.next_batch(1)
    assert getattr(window, end)(batch)
    assert not window.settle(batch)
    assert not window.give_back(batch)
    assert window.size == (100 if end == "settle" else 200)


def test_the_others_are_settled_although_one_comes_too_late():
    window = window_of(0, 1, 2)
    first, second = window.next_batch(2)
    window.settle((first,))
    assert not window.settle((first, second))
    assert window.consumed_offset == 2
    (third,) = window.next_batch(1)
    assert not window.give_back((second, third))
    assert offsets(window.next_batch(1)) == [2]


def test_messages_that_are_taken_are_settled():
    window = window_of(0, 1, 2)
    assert offsets(window.take(2)) == [0, 1]
    assert (window.consumed_offset, window.count, window.size) == (2, 1, 100)
    assert offsets(window.take(2)) == [2]
    assert window.take(2) == []


def test_a_seek_forgets_everything_and_outdates_what_was_handed_out():
    window = window_of(0, 1)
    old = window.next_batch(1)
    window.seek(0)
    assert (window.count, window.size, window.pull_offset, window.consumed_offset) == (0, 0, 0, 0)
    window.add(messages(0), 1)
    new = window.next_batch(1)
    assert new == old
    assert not window.is_open(old[0])
    assert not window.settle(old)
    assert window.consumed_offset == 0
    assert window.settle(new)


class Settlement(RuleBasedStateMachine):
    """Whatever is settled or given back, in whatever order: nothing is skipped, and the sums add up."""

    def __init__(self):
        super().__init__()
        self.window = ProcessQueue(0, count_max=30)
        self.next_offset = 0
        self.handed_out: list[StoredMessage] = []
        self.done: set[int] = set()
        self.added: list[int] = []

    @precondition(lambda self: self.window.has_room)
    @rule(gaps=st.lists(st.integers(1, 3), max_size=6), behind=st.integers(0, 3))
    def pull(self, gaps, behind):
        found = []
        for gap in gaps:
            self.next_offset += gap
            found.append(message(self.next_offset - 1, 10))
        self.next_offset += behind
        self.added += offsets(found)
        self.window.add(found, self.next_offset)

    @rule(count=st.integers(1, 6))
    def hand_out(self, count):
        batch = self.window.next_batch(count)
        assert len(batch) <= count
        assert offsets(batch) == sorted(offsets(batch))
        self.handed_out += batch

    @precondition(lambda self: self.handed_out)
    @rule(data=st.data())
    def settle(self, data):
        chosen = data.draw(st.lists(st.sampled_from(self.handed_out), min_size=1, unique_by=id))
        assert self.window.settle(chosen)
        self.done.update(offsets(chosen))
        self.handed_out = [found for found in self.handed_out if found not in chosen]

    @precondition(lambda self: self.handed_out)
    @rule(data=st.data())
    def settle_up_to(self, data):
        last = data.draw(st.sampled_from(self.handed_out)).queue_offset
        chosen = [found for found in self.handed_out if found.queue_offset <= last]
        assert self.window.settle(chosen)
        self.done.update(offsets(chosen))
        self.handed_out = [found for found in self.handed_out if found not in chosen]

    @precondition(lambda self: self.handed_out)
    @rule(data=st.data())
    def give_back(self, data):
        chosen = data.draw(st.lists(st.sampled_from(self.handed_out), min_size=1, unique_by=id))
        assert self.window.give_back(chosen)
        self.handed_out = [found for found in self.handed_out if found not in chosen]

    @invariant()
    def the_offset_never_passes_a_message_that_is_not_settled(self):
        left = [offset for offset in self.added if offset not in self.done]
        assert self.window.consumed_offset == (left[0] if left else self.next_offset)

    @invariant()
    def the_sums_add_up(self):
        assert self.window.count == len(self.added) - len(self.done)
        assert self.window.size == 10 * self.window.count
        assert self.window.is_ready == (len(self.handed_out) < self.window.count)

    def teardown(self):
        """What is left comes, all of it, in order."""
        self.window.give_back(self.handed_out)
        rest = []
        while batch := self.window.next_batch(4):
            rest += offsets(batch)
        assert rest == [offset for offset in self.added if offset not in self.done]


TestSettlement = Settlement.TestCase


def test_a_window_says_which_messages_it_holds():
    window = window_of(5, 6, 9)
    assert (window.bounds, window.open_offsets) == ((5, 9), [])
    first, second = window.next_batch(2)
    assert (window.bounds, window.open_offsets) == ((5, 9), [5, 6])
    window.settle([first])
    assert window.bounds == (6, 9)
    window.seek(20)
    assert (window.bounds, window.open_offsets) == ((0, 0), [])
    assert second.queue_offset == 6


def test_a_window_has_no_room_while_its_first_message_lies_too_far_behind_the_last():
    window = ProcessQueue(0, span_max=5)
    window.add([message(number) for number in range(6)], 6)
    assert window.has_room
    window.add([message(6)], 7)
    assert window.is_too_wide
    first = window.next_batch(1)
    others = window.next_batch(9)
    window.settle(others[:-1])
    assert not window.has_room  # however few there are
    window.settle(first)
    assert window.has_room
    window.settle(others)
    assert window.has_room


def test_the_share_of_a_consumers_bytes_limits_a_queue_as_it_is_now():
    """64 queues of 100 MiB each were 3.2 GiB: there was no limit in all."""
    share = 100
    window = ProcessQueue(0, size_max=1_000, share_size=lambda: share)
    window.add([message(0, size=60)], 1)
    assert window.has_room
    share = 50
    assert not window.has_room
