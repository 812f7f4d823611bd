"""The table of consume queues."""

from pathlib import Path

import pytest

from cases import each_case
from orbitmq.errors import InvalidArgument
from orbitmq.store.local_disk import LocalDisk
from orbitmq.store.queues import consume_queues
from orbitmq.store.queues.consume_queues import ConsumeQueues
from orbitmq.store.values import Dispatched
from orbitmq.testing.fake_disk import FakeDisk


def queues_of(disk=None):
    return ConsumeQueues(disk or FakeDisk(), Path("/q"), 4)


def message(topic="orders", queue_id=0, offset=0, sys_flag=0):
    return Dispatched(topic, queue_id, offset, offset * 100, 100, 7, 1, sys_flag, b"")


def test_a_queue_is_made_once_and_its_files_with_its_first_message(disk):
    queues = queues_of(disk)
    assert queues.get("orders", 0) is None
    assert queues.make("orders", 0) is queues.make("orders", 0) is queues.get("orders", 0)
    assert disk.files == {}


def test_loading_finds_every_queue(disk):
    for topic, queue_id in (("orders", 0), ("orders", 11), ("bills", 3)):
        queues = queues_of(disk)
        queues.replay(message(topic, queue_id))
        queues.make(topic, queue_id).sync()
    disk.write(Path("/q/orders/notes/file"), b"mine")
    queues = queues_of(disk)
    queues.load()
    assert sorted((queue.topic, queue.queue_id, queue.max_offset) for queue in queues) == [
        ("bills", 3, 1),
        ("orders", 0, 1),
        ("orders", 11, 1),
    ]


@each_case("", ".", "..", "../../etc", "a/b", "a\0b", "x" * 256, "é" * 128)
def test_a_topic_that_cannot_name_a_directory_is_refused_cve_2019_17572(topic):
    with pytest.raises(InvalidArgument, match="topic"):
        queues_of().make(topic, 0)


def test_a_negative_queue_id_is_refused():
    with pytest.raises(InvalidArgument, match="queue_id"):
        queues_of().make("orders", -1)


def test_messages_without_a_place_are_passed_over():
    queues = queues_of()
    queues.put(message(sys_flag=0x4))
    queues.replay(message(sys_flag=0xC))
    assert queues.table == {}


def test_put_and_replay_lead_to_the_same_entry():
    queues = queues_of()
    queues.replay(message())
    queue = queues.get("orders", 0)
    queues.put(message(offset=1))
    assert list(queue.entries(0, 9)) == [(0, 100, 7), (100, 100, 7)]


def test_a_removed_topic_leaves_nothing_behind(disk):
    queues = queues_of(disk)
    for queue_id in (0, 1):
        queues.replay(message("gone", queue_id))
    queues.replay(message("kept"))
    for queue in queues:
        queue.sync()
    queues.remove_topic("gone")
    queues.remove_topic("never-was")
    assert disk.names(Path("/q")) == ["kept"]
    assert [queue.topic for queue in queues] == ["kept"]
    assert (queues.topics(), queues.of_topic("gone")) == (["kept"], [])
    queues.close()


def test_a_topics_queues_are_told_without_a_look_at_the_others():
    queues = queues_of()
    for topic, queue_id in (("orders", 3), ("bills", 0), ("orders", 1)):
        queues.make(topic, queue_id)
    assert queues.topics() == ["bills", "orders"]
    assert [queue.queue_id for queue in queues.of_topic("orders")] == [3, 1]
    queues.of_topic("orders").clear()
    assert len(queues.of_topic("orders")) == 2


@each_case("x" * 255, "%RETRY%g", "a..b", ".a")
def test_a_topic_may_have_any_name_that_a_directory_may_have(topic):
    assert queues_of().make(topic, 0).topic == topic


def test_closed_queues_have_no_file_open(tmp_path):
    queues = ConsumeQueues(LocalDisk(), tmp_path, 4)
    for queue_id in (0, 1):
        queues.replay(message(queue_id=queue_id))
    for queue in queues:
        queue.sync()
    files = [queue.log.segments[0].file for queue in queues]
    queues.close()
    for file in files:
        with pytest.raises(OSError, match="Bad file descriptor"):
            file.read(0, 1)


def test_a_directory_whose_name_is_no_number_of_ours_is_no_queue(disk):
    disk.write(Path("/q/orders/\N{SUPERSCRIPT TWO}/x"), b"")
    queues = queues_of(disk)
    assert queues.load() == set()
    assert list(queues) == []


def test_no_more_is_kept_of_the_files_than_there_is_memory_for(monkeypatch, disk):
    for queue_id in range(3):
        queues = queues_of(disk)
        queues.replay(message(queue_id=queue_id))
        queues.make("orders", queue_id).sync()
    monkeypatch.setattr(consume_queues, "_SEEN_SIZE_MAX", 40)
    queues = queues_of(disk)
    queues.load()
    assert [queue.seen_size for queue in queues] == [20, 20, 0]
    assert [queue.entry(0)[1] for queue in queues] == [100, 100, 100]
