"""Consume queues rebuilt, and the file that names them meanwhile."""

from pathlib import Path

from cases import each_case
from orbitmq.store.queues.consume_queues import ConsumeQueues
from orbitmq.store.queues.rebuild import OffsetStep, Rebuild, RebuildMark, classify_step
from orbitmq.store.sync.entry_sync import sync_entries
from orbitmq.store.values import Dispatched
from orbitmq.testing.fake_disk import FakeDisk

KEY = ("orders", 0)
PATH = Path("/store/rebuild")
KEYS = {("orders", 0): 0, ("orders", 12): 5_000, ("%RETRY%g", 3): 1, ("with blank", 1): 0}


@each_case(
    (7, 7, None, OffsetStep.NEXT),
    (7, None, None, OffsetStep.NEXT),
    (0, 7, None, OffsetStep.HOLD),
    (1, 7, 0, OffsetStep.LEAP),
    (9, 7, None, OffsetStep.HOLD),
    (3, 7, None, OffsetStep.HOLD),
    (9, 7, 8, OffsetStep.LEAP),
    (4, 7, 3, OffsetStep.LEAP),
    (9, 7, 100, OffsetStep.HOLD),
)
def test_two_numbers_in_a_row_say_where_a_queue_goes_on(queue_offset, expected, held, step):
    assert classify_step(queue_offset, expected, held) is step


def rebuilt(*queue_offsets):
    """Rebuild a queue from messages with these queue offsets; return its entries' places in the log, and the unplaced."""
    queues = ConsumeQueues(FakeDisk(), Path("/q"), 4)
    unplaced = []
    rebuild = Rebuild(queues, {KEY: 0}, lambda message: unplaced.append(message.queue_offset), sync_entries)
    for place, queue_offset in enumerate(queue_offsets):
        rebuild.take(Dispatched(*KEY, queue_offset, place, 1, 7, 1, 0, b""))
    rebuild.finish()
    queue = queues.get(*KEY)
    first = queue.min_offset(0)
    assert queue.is_synced
    return {first + number: entry[0] for number, entry in enumerate(queue.entries(first, 1000))}, unplaced


def test_a_queue_without_a_message_in_the_log_goes_on_where_it_was(disk):
    queues = ConsumeQueues(disk, Path("/q"), 4)
    Rebuild(queues, {KEY: 8, ("bills", 1): 9, ("none", 0): 0}, print, sync_entries).finish()
    again = ConsumeQueues(disk, Path("/q"), 4)
    again.load()
    for loaded in (queues, again):
        assert {queue.topic: queue.next_offset for queue in loaded} == {"orders": 8, "bills": 9}
        assert [queue.min_offset(0) for queue in loaded] == [queue.max_offset for queue in loaded]
    assert all(file.durable is not None for file in disk.files.values())


@each_case(0, 4, 5)
def test_a_queues_messages_say_where_it_ends_not_what_was_thought_of_it(first):
    """Also where no file holds them yet."""
    queues = ConsumeQueues(FakeDisk(), Path("/q"), 4)
    rebuild = Rebuild(queues, {KEY: 100}, print, sync_entries)
    rebuild.take(Dispatched(*KEY, first, 0, 1, 7, 1, 0, b""))
    rebuild.finish()
    assert queues.get(*KEY).next_offset == first + 1


@each_case(
    ([0, 1, 2], {0: 0, 1: 1, 2: 2}, []),
    ([5, 6, 7], {5: 0, 6: 1, 7: 2}, []),  # the log's beginning was cleaned away
    ([0, 1, 99, 3, 4], {0: 0, 1: 1, 2: 3, 3: 3, 4: 4}, [99]),  # a number rotted
    ([0, 1, 2, 1, 4, 5], {0: 0, 1: 1, 2: 2, 3: 4, 4: 4, 5: 5}, [1]),
    ([0, 1, 4, 5], {0: 0, 1: 1, 2: 2, 3: 2, 4: 2, 5: 3}, []),  # two messages are missing
    ([0, 1, 2, 0, 1], {0: 3, 1: 4}, []),  # the topic was made again
    ([3, 4, 5, 0], {3: 0, 4: 1, 5: 2}, [0]),
    ([0, 1, 2, 0, 4, 5], {0: 0, 1: 1, 2: 2, 3: 4, 4: 4, 5: 5}, [0]),  # one that rotted to 0 ends no queue
    ([1000, 1001, 0, 1], {0: 2, 1: 3}, []),
    ([0, 1, 1000, 1001], {1000: 2, 1001: 3}, []),  # too far to fill
    ([0, 1, 2, 3, 1, 2], {0: 0, 1: 4, 2: 5}, []),  # numbers were given a second time
    ([0, 1, 3], {0: 0, 1: 1, 2: 2, 3: 2}, []),  # held to the end
    ([0, 1, 1000], {0: 0, 1: 1}, [1000]),
    ([0, 1, 99, 77, 4, 5], {0: 0, 1: 1, 2: 4, 3: 4, 4: 4, 5: 5}, [99, 77]),
)
def test_a_queue_is_what_its_messages_say_with_single_numbers_out_of_step_left_out(queue_offsets, entries, unplaced):
    assert rebuilt(*queue_offsets) == (entries, unplaced)


def test_the_queues_are_named_until_the_mark_is_removed(disk):
    mark = RebuildMark(disk, PATH)
    assert mark.read() == {}
    mark.write(KEYS)
    assert disk.files[PATH].durable is not None
    assert RebuildMark(disk, PATH).read() == KEYS
    mark.remove()
    assert mark.read() == {}
    assert not disk.exists(PATH)


def test_garbage_names_no_queue(disk):
    disk.write(PATH, b"\xff\xfe\0\n7 \n orders\nx orders\n-1 orders\n3 bills\n")
    assert RebuildMark(disk, PATH).read() == {("bills", 3): 0}


def test_a_line_of_more_digits_than_a_number_may_have_names_no_queue(disk):
    disk.write(PATH, b"9" * 5000 + b" orders\n0," + b"9" * 5000 + b" orders\n1,7 bills\n")
    assert RebuildMark(disk, PATH).read() == {("bills", 1): 7}
