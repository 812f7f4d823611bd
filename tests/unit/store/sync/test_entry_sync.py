"""The entries of many queues, synced together."""

import errno
from itertools import product
from pathlib import Path

import pytest

from cases import each_case
from orbitmq.store.queues.consume_queues import ConsumeQueues
from orbitmq.store.sync import entry_sync
from orbitmq.store.sync.entry_sync import sync_entries
from orbitmq.store.values import Dispatched
from orbitmq.testing.fake_disk import FakeDisk


def queues_of(count, entries=1, disk=None):
    """Return queues of files with four entries each, none of them synced."""
    disk = disk or FakeDisk()
    queues = ConsumeQueues(disk, Path("/q"), 4)
    for number in range(count):
        for offset in range(entries):
            queues.replay(Dispatched("orders", number, offset, offset * 100, 100, 7, 1, 0, b""))
    return disk, queues


@each_case(*product([1, 16, 17, 50], [1, 4, 9]))
def test_all_entries_of_all_queues_are_on_the_disk_afterwards(count, entries):
    disk, queues = queues_of(count, entries)
    sync_entries(queues)
    assert all(queue.is_synced for queue in queues)
    assert len(disk.files) == count * -(-entries // 4)
    assert all(file.durable == bytes(file.buffer) for file in disk.files.values())


@pytest.fixture(params=["in bulk", "in threads"])
def way(request, monkeypatch):
    """Three queues are many, and one sync is for two of them; or the file system has none for many."""
    monkeypatch.setattr(entry_sync, "_MANY", 3)
    monkeypatch.setattr(entry_sync, "_HELD_MAX", 2)
    return request.param


@pytest.mark.parametrize("count", [2, 3, 17])
@pytest.mark.parametrize("entries", [1, 4, 9])
def test_many_queues_share_syncs_where_the_disk_has_them(way, count, entries):
    disk, queues = queues_of(count, entries)
    disk.has_bulk_sync = way == "in bulk"
    sync_entries(queues)
    assert all(queue.is_synced for queue in queues)
    assert all(file.durable == bytes(file.buffer) for file in disk.files.values())
    assert len(disk.files) == count * -(-entries // 4)
    assert all(segment.holders == 0 for queue in queues for segment in queue.log.segments)
    sync_entries(queues)


@pytest.mark.parametrize("count", [1, 9, 50])
@pytest.mark.parametrize("operation", ["open", "pwrite", "sync"])
def test_a_failure_is_told_and_what_failed_is_not_forgotten(way, count, operation):
    disk, queues = queues_of(count)
    disk.has_bulk_sync = way == "in bulk"
    disk.failures[operation] = OSError(errno.EIO, "Input/output error")
    with pytest.raises(OSError, match="Input/output error"):
        sync_entries(queues)
    assert not any(queue.is_synced for queue in queues)
    assert all(segment.holders == 0 for queue in queues for segment in queue.log.segments)
    disk.failures.clear()
    sync_entries(queues)
    assert all(queue.is_synced for queue in queues)
    assert all(file.durable == bytes(file.buffer) for file in disk.files.values())


def test_with_few_descriptors_fewer_queues_share_a_sync(monkeypatch):
    monkeypatch.setattr(entry_sync, "_MANY", 9)
    opened = []

    class Short(FakeDisk):
        def open(self, path, size, *, is_one_of_many=False):
            opened.append(path)
            if len(opened) in (2, 5):
                raise OSError(errno.EMFILE, "Too many open files")
            return super().open(path, size, is_one_of_many=is_one_of_many)

    disk, queues = queues_of(9, disk=Short())
    sync_entries(queues)
    assert all(queue.is_synced for queue in queues)
    assert all(file.durable == bytes(file.buffer) for file in disk.files.values())


def test_only_the_queues_that_are_named_are_synced():
    _, queues = queues_of(4)
    sync_entries(queues, list(queues)[:2])
    assert [queue.is_synced for queue in queues] == [True, True, False, False]
