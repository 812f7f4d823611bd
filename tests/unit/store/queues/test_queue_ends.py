"""The file that says where every queue ended."""

from pathlib import Path

from cases import each_case
from orbitmq.store.queues.consume_queues import ConsumeQueues
from orbitmq.store.queues.queue_ends import QueueEnds
from orbitmq.store.values import Dispatched
from orbitmq.testing.fake_disk import FakeDisk


def queues_of(**ends):
    queues = ConsumeQueues(FakeDisk(), Path("/q"), 4)
    for topic, (first, end) in ends.items():
        for offset in range(first, end):
            queues.replay(Dispatched(topic, 3, offset, offset * 100, 100, 7, 1, 0, b""))
    return queues


def test_what_is_written_is_read_again():
    queues = queues_of(orders=(0, 6), bills=(9, 11))
    queues.make("new", 0)
    noted = QueueEnds.of(queues, 77)
    assert noted == (77, {("orders", 3): (0, 6), ("bills", 3): (8, 11)})
    assert QueueEnds.parse(noted.format()) == noted


@each_case(
    b"",
    b"\xff\xfe",
    b"x\n",
    b"5\n1 2 3\n",
    b"5\n1 2 x orders\n",
    b"\0" * 40,
    b"5\n0 2 0 \n",
    b"5\n0 2 0 ../x\n",
    b"5\n0 2 -1 orders\n",
)
def test_a_damaged_file_knows_nothing(content):
    assert QueueEnds.parse(content) == (0, {})


def test_queues_that_are_missing_or_shorter_or_begin_later_have_lost_entries():
    noted = QueueEnds.of(queues_of(whole=(0, 6), grown=(0, 3), gone=(0, 1), shorter=(0, 6), later=(0, 6)), 0)
    now = queues_of(whole=(0, 6), grown=(0, 9), shorter=(0, 5), later=(5, 6))
    assert noted.shorter(now, 0) == {("gone", 3), ("shorter", 3), ("later", 3)}


def test_a_queue_may_begin_later_when_the_log_does():
    noted = QueueEnds.of(queues_of(later=(0, 6)), 0)
    assert noted.shorter(queues_of(later=(5, 6)), 100) == set()
