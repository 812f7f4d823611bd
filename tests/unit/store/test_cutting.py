"""A log that is cut where a new master's goes on: what is behind is moved aside, and stays away over crashes."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from cases import each_case
from orbitmq.errors import StoreError
from orbitmq.store import AppendResult, Store
from orbitmq.testing.fake_disk import FakeDisk, PowerCut

from .parts import ROOT, draft, store_of

COUNT = 30
OPERATIONS = 60
"""Of the disk, and more, while a store is opened and cut."""


def filled(disk: FakeDisk) -> list[AppendResult]:
    """Write messages of two queues into four files, and close the store."""
    store = store_of(disk, segment_size=1024)
    results = [store.append(draft(queue_id=number % 2, body=b"old %d" % number)) for number in range(COUNT)]
    store.close()
    return results


def bodies(store: Store, queue_id: int) -> list[bytes]:
    found = (store.message_at("orders", queue_id, number) for number in range(store.max_offset("orders", queue_id)))
    return [bytes(record.body) for record in found if record is not None]


def expected(count: int, queue_id: int) -> list[bytes]:
    return [b"old %d" % number for number in range(queue_id, count, 2)]


@each_case(*product(range(COUNT), [True, False]))
def test_a_log_ends_where_it_is_cut_and_goes_on_there(count: int, is_orderly: bool) -> None:
    disk = FakeDisk()
    results = filled(disk)
    if not is_orderly:
        store_of(disk, segment_size=1024)
        disk = disk.after_kill()
    cut_at = results[count].physical_offset
    store = store_of(disk, segment_size=1024, cut_at=cut_at)
    assert store.max_physical_offset == cut_at
    assert [bodies(store, 0), bodies(store, 1)] == [expected(count, 0), expected(count, 1)]
    assert store.quarantine_size
    new = store.append(draft(queue_id=count % 2, body=b"new"))
    assert (new.physical_offset >= cut_at, new.queue_offset) == (True, count // 2)
    store.flush()
    again = store_of(disk.after_kill(), segment_size=1024)
    assert bodies(again, count % 2) == [*expected(count, count % 2), b"new"]
    assert bodies(again, 1 - count % 2) == expected(count, 1 - count % 2)


@each_case(*range(1, OPERATIONS))
def test_a_power_cut_amid_cutting_leaves_nothing_of_the_tail_readable(cut_after: int) -> None:
    disk = FakeDisk()
    results = filled(disk)
    cut_at = results[7].physical_offset
    disk.cut_at = disk.operation_count + cut_after
    try:
        store_of(disk, segment_size=1024, cut_at=cut_at)
    except PowerCut:
        disk = disk.after_power_cut(Random(cut_after))
    else:
        disk = disk.after_kill()
    store = store_of(disk, segment_size=1024, cut_at=cut_at)
    assert store.max_physical_offset == cut_at
    store.append(draft(queue_id=1, body=b"new"))
    store.flush()
    for found in (store, store_of(disk.after_kill(), segment_size=1024)):
        assert [bodies(found, 0), bodies(found, 1)] == [expected(7, 0), [*expected(7, 1), b"new"]]


def test_a_log_is_cut_between_records_alone() -> None:
    disk = FakeDisk()
    results = filled(disk)
    before = disk.read(ROOT / "commitlog" / f"{0:020}")
    with pytest.raises(StoreError, match="no record begins there"):
        store_of(disk, segment_size=1024, cut_at=results[3].physical_offset + 1)
    assert disk.read(ROOT / "commitlog" / f"{0:020}") == before
    assert bodies(store_of(disk.after_kill(), segment_size=1024), 0) == expected(COUNT, 0)


def test_a_log_that_ends_before_the_cut_is_left_alone() -> None:
    disk = FakeDisk()
    end = filled(disk)[-1].end
    store = store_of(disk, segment_size=1024, cut_at=end)
    assert (store.max_physical_offset, store.quarantine_size) == (end, 0)
    store.close()
    assert store_of(disk, segment_size=1024, cut_at=end + 5_000).max_physical_offset == end
