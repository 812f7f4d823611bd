"""Deleted topics stay deleted: a crash brings nothing back, and costs a topic that was made again nothing."""

from __future__ import annotations

import errno
from pathlib import Path
from random import Random

import pytest

from orbitmq.errors import StoreUnavailable
from orbitmq.store import Store
from orbitmq.store.queues.deletions import parse_deletions
from orbitmq.testing.fake_disk import FakeDisk
from orbitmq.wire.messages.record import iter_records

from .parts import ROOT, draft, store_of

DELETED = ROOT / "deleted"


def bodies(store: Store, topic: str = "orders") -> list[bytes]:
    return [bytes(record.body) for record in iter_records(store.read(topic, 0, 0, 1000, 1 << 20).body)]


def filled(disk: FakeDisk) -> Store:
    store = store_of(disk)
    for number in range(30):
        store.append(draft("orders" if number % 2 else "bills", body=b"%d" % number))
    return store


def test_a_topic_that_was_deleted_stays_deleted_after_kill_9(disk: FakeDisk) -> None:
    filled(disk).delete_topic("orders")
    store = store_of(disk.after_kill())
    assert (store.queue_ids("orders"), store.max_offset("orders", 0)) == ([], 0)
    assert len(bodies(store, "bills")) == 15
    assert store.recovery_report.unplaced_count == 0


def test_the_last_topic_stays_deleted_after_an_orderly_stop(disk: FakeDisk) -> None:
    store = store_of(disk)
    store.append(draft())
    store.delete_topic("orders")
    store.close()
    assert store_of(disk.after_kill()).queue_ids("orders") == []


@pytest.mark.parametrize("starts", [1, 2])
def test_a_topic_that_is_made_again_keeps_its_new_messages_and_no_old_ones(starts: int, disk: FakeDisk) -> None:
    store = filled(disk)
    store.delete_topic("orders")
    new = [b"new %d" % number for number in range(40)]
    for body in new:
        store.append(draft(body=body))
    for _ in range(starts):
        disk = disk.after_kill()
        store = store_of(disk)
    assert bodies(store) == new
    assert store.recovery_report.rebuilt == []


def test_queues_that_are_rebuilt_hold_nothing_from_before_the_deletion(disk: FakeDisk) -> None:
    store = filled(disk)
    store.delete_topic("orders")
    store.append(draft(queue_id=1, body=b"new"))
    disk = disk.after_kill()
    disk.write(ROOT / "rebuild", b"0 orders\n1 orders\n0 bills\n")
    store = store_of(disk)
    assert store.max_offset("orders", 0) == 0
    assert store.max_offset("orders", 1) == 1
    assert len(bodies(store, "bills")) == 15


class KeepingDisk(FakeDisk):
    """A disk that removes files, but no directories."""

    def remove(self, path: Path) -> None:
        if path not in self.files:
            raise OSError(errno.EIO, "Input/output error")
        super().remove(path)


def test_a_deletion_whose_queues_stayed_on_the_disk_is_finished_by_the_next_start(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = KeepingDisk()
    store = filled(disk)
    store.flush()
    disk.write(ROOT / "ends", b"0\n")
    store.delete_topic("orders")
    assert "the queues of orders stay on the disk until the next start removes them" in caplog.text
    assert store.max_offset("orders", 0) == 0
    found = disk.after_kill()
    assert any("orders" in path.parts for path in found.files)
    store = store_of(found)
    assert (bodies(store), store.max_offset("orders", 0)) == ([], 0)
    assert not any("orders" in path.parts for path in found.files)


@pytest.mark.parametrize("operation", ["remove", "write", "move"])
def test_a_deletion_that_cannot_be_noted_is_refused_and_deletes_nothing(operation: str, disk: FakeDisk) -> None:
    store = filled(disk)
    disk.failures[operation] = OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(StoreUnavailable, match="the deletion of orders cannot be noted: No space left on device"):
        store.delete_topic("orders")
    assert len(bodies(store)) == 15
    del disk.failures[operation]
    assert len(bodies(store_of(disk.after_kill()))) == 15


def test_a_topic_without_messages_leaves_no_note(disk: FakeDisk) -> None:
    filled(disk).delete_topic("nothing")
    assert not disk.exists(DELETED)


@pytest.mark.parametrize("seed", range(20))
def test_what_comes_where_a_power_cut_took_the_tail_is_kept(seed: int, disk: FakeDisk) -> None:
    """The note reaches beyond what is left of the log: new messages come to lie before it."""
    store = filled(disk)
    store.delete_topic("orders")
    disk = disk.after_power_cut(Random(seed))
    store = store_of(disk)
    end = store.max_physical_offset
    assert all(noted <= end for noted in parse_deletions(disk.read(DELETED)).values())
    store.append(draft(body=b"new"))
    assert bodies(store_of(disk.after_kill())) == [b"new"], seed


def test_an_empty_last_file_of_a_deletion_that_was_cut_short_does_not_let_the_topic_begin_late(disk: FakeDisk) -> None:
    store = filled(disk)
    store.delete_topic("orders")
    disk.open(ROOT / "consumequeue" / "orders" / "0" / f"{8 * 20:020}", 8 * 20)
    store = store_of(disk.after_kill())
    assert store.append(draft()).queue_offset == 0
