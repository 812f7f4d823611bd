from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from orbitmq.client.consume.pull.window import Window
from orbitmq.model.message import StoredMessage


def message(queue_offset, size=100):
    return StoredMessage(
        topic="t", body=b"", properties={}, queue_id=0, queue_offset=queue_offset, physical_offset=0, store_size=size
    )


def messages(*offsets):
    return [message(offset) for offset in offsets]


def offsets(batch):
    return [found.queue_offset for found in batch]


def test_messages_leave_in_order_and_one_batch_at_a_time():
    window = Window(5)
    window.add(messages(5, 6, 7), 8)

    batch = window.next_batch(2)
    assert offsets(batch) == [5, 6]
    assert not window.is_ready
    assert window.next_batch(2) == ()
    assert window.commit(batch)
    assert window.is_ready
    assert offsets(window.next_batch(2)) == [7]


def test_the_offset_to_commit_is_that_of_the_first_message_that_is_not_done():
    window = Window(5)
    assert window.consumed_offset == 5
    window.add(messages(6, 9), 12)
    assert window.consumed_offset == 6
    batch = window.next_batch(1)
    assert window.consumed_offset == 6
    window.commit(batch)
    assert window.consumed_offset == 9
    window.commit(window.next_batch(1))
    assert window.consumed_offset == 12  # what the filter left out behind the last message is done as well


def test_a_batch_given_back_comes_again_in_front():
    window = Window(0)
    window.add(messages(0, 1, 2), 3)
    assert window.give_back(window.next_batch(2))
    assert offsets(window.next_batch(3)) == [0, 1, 2]


def test_part_of_a_batch_may_be_done():
    window = Window(0)
    window.add(messages(0, 1, 2), 3)
    batch = window.next_batch(3)
    window.commit(batch, 1)
    assert window.consumed_offset == 1
    assert offsets(window.next_batch(3)) == [1, 2]


def test_pulling_pauses_at_the_limit_of_messages():
    window = Window(0, count_max=2)
    window.add(messages(0, 1), 2)
    assert not window.has_room
    batch = window.next_batch(2)
    assert not window.has_room
    window.commit(batch)
    assert window.has_room


def test_pulling_pauses_at_the_limit_of_bytes():
    window = Window(0, size_max=150)
    window.add([message(0, 100)], 1)
    assert window.has_room
    window.add([message(1, 100)], 2)
    assert not window.has_room
    window.commit(window.next_batch(1))
    assert window.has_room
    assert window.size == 100


def test_a_body_counts_as_large_as_it_is_here_not_as_it_was_stored():
    window = Window(0, size_max=1_000)
    window.add([replace(message(0, 50), body=bytes(1_000))], 1)
    assert not window.has_room
    assert window.size == 1_000


def test_a_batch_is_done_once():
    window = Window(0)
    window.add(messages(0, 1), 2)
    batch = window.next_batch(1)
    assert window.commit(batch)
    assert not window.commit(batch)
    assert not window.give_back(batch)
    assert window.size == 100


def test_an_empty_batch_is_nothing_to_commit():
    window = Window(0)
    assert not window.commit(window.next_batch(1))


def test_a_seek_forgets_everything_and_outdates_the_batch_that_was_handed_out():
    window = Window(0)
    window.add(messages(0, 1), 2)
    old = window.next_batch(1)
    window.seek(40)
    assert (window.count, window.size, window.pull_offset, window.consumed_offset) == (0, 0, 40, 40)
    window.add(messages(40), 41)
    new = window.next_batch(1)
    assert not window.commit(old)
    assert window.consumed_offset == 40
    assert window.commit(new)


@given(st.lists(st.tuples(st.sampled_from(["add", "take", "commit", "give back"]), st.integers(1, 5))))
def test_whatever_happens_nothing_is_skipped_and_the_sums_add_up(steps):
    window, done, added = Window(0, count_max=8), [], 0
    batch: Sequence[StoredMessage] = ()
    for step, count in steps:
        if step == "add" and window.has_room:
            window.add([message(added + number, 10) for number in range(count)], added + count)
            added += count
        elif step == "take":
            batch = window.next_batch(count) or batch
        elif step == "commit" and window.commit(batch, count):
            done += offsets(batch[:count])
        elif step == "give back":
            window.give_back(batch)
        assert window.consumed_offset == len(done)
        assert window.count == added - len(done)
        assert window.size == 10 * window.count
    assert done == list(range(len(done)))
