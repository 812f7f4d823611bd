"""The entries of many queues, synced at once."""

import errno
from pathlib import Path

import pytest

from orbitmq.store.queues.consume_queues import ConsumeQueues
from orbitmq.store.sync.entry_sync import sync_entries
from orbitmq.store.values import Dispatched
from orbitmq.testing.fake_disk import FakeDisk


def queues_of(count, entries=1):
    """Return queues of files with four entries each, none of them synced."""
    disk = FakeDisk()
    queues = ConsumeQueues(disk, Path("/q"), 4)
    for number in range(count):
        for offset in range(entries):
            queues.replay(Dispatched("orders", number, offset, offset * 100, 100, 7, 1, 0, b""))
    return disk, queues


@pytest.mark.parametrize("count", [1, 16, 17, 50])
@pytest.mark.parametrize("entries", [1, 4, 9])
def test_all_entries_of_all_queues_are_on_the_disk_afterwards(count, entries):
    disk, queues = queues_of(count, entries)
    sync_entries(queues)
    assert all(queue.is_synced for queue in queues)
    assert len(disk.files) == count * -(-entries // 4)
    assert all(file.durable == bytes(file.buffer) for file in disk.files.values())


@pytest.mark.parametrize("count", [1, 50])
@pytest.mark.parametrize("operation", ["open", "pwrite", "sync"])
def test_a_failure_is_told_and_what_failed_is_not_forgotten(count, operation):
    disk, queues = queues_of(count)
    disk.failures[operation] = OSError(errno.EIO, "Input/output error")
    with pytest.raises(OSError, match="Input/output error"):
        sync_entries(queues)
    assert not any(queue.is_synced for queue in queues)
    assert all(segment.holders == 0 for queue in queues for segment in queue.log.segments)
    disk.failures.clear()
    sync_entries(queues)
    assert all(queue.is_synced for queue in queues)
