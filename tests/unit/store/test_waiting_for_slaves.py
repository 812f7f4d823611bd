"""A store whose readers see what slaves have: the log goes on, its queues wait."""

from __future__ import annotations

from typing import Any

from orbitmq.store import FlushMode, ReadStatus, Store
from orbitmq.store.queues.consume_queue import UNIT
from orbitmq.store.sync.checkpoint import parse_checkpoint
from orbitmq.testing import FakeClock
from orbitmq.testing.fake_disk import FakeDisk

from .parts import ROOT, draft, store_of


def replicating(disk: FakeDisk | None = None, clock: FakeClock | None = None, **changes: Any) -> Store:
    return store_of(disk, clock, waits_for_slaves=True, **changes)


def bodies(store: Store, topic: str = "orders") -> list[bytes]:
    found = (store.message_at(topic, 0, number) for number in range(store.max_offset(topic, 0)))
    return [bytes(record.body) for record in found if record is not None]


def test_a_message_is_read_when_slaves_have_it() -> None:
    store = replicating()
    first, second = store.append(draft(body=b"1")), store.append(draft(body=b"2"))
    assert store.read("orders", 0, 0).status is not ReadStatus.FOUND
    assert store.record_at(first.physical_offset) is None
    store.replicated_to(second.end - 1)
    assert bodies(store) == [b"1"]
    assert store.record_at(first.physical_offset) is not None
    assert store.dispatch_behind_size == 1
    store.replicated_to(second.end)
    assert bodies(store) == [b"1", b"2"]
    assert store.dispatch_behind_size == 0


def test_listeners_hear_of_a_held_message_and_of_its_arrival() -> None:
    store = replicating()
    heard: list[str] = []
    store.on_held.append(lambda: heard.append("held"))
    store.on_arrived.append(lambda topic, queue_id, queue_offset, tag_code: heard.append("arrived"))
    result = store.append(draft())
    assert heard == ["held"]
    store.replicated_to(result.end)
    assert heard == ["held", "arrived"]


def test_a_slave_is_shown_what_consumers_are_not() -> None:
    store = replicating()
    result = store.append(draft())
    assert store.record_at(result.physical_offset, is_for_slave=True) is not None
    assert store.read_raw(0, 1_000)


def test_with_both_waits_the_later_one_counts() -> None:
    store = replicating(flush=FlushMode.SYNC)
    first = store.append(draft(body=b"1"))
    store.replicated_to(first.end)
    assert bodies(store) == []
    store.flush()
    assert bodies(store) == [b"1"]
    store.append(draft(body=b"2"))
    store.flush()
    assert bodies(store) == [b"1"]
    store.replicated_to(store.max_physical_offset)
    assert bodies(store) == [b"1", b"2"]


def test_no_checkpoint_covers_entries_that_are_not_made() -> None:
    disk, clock = FakeDisk(), FakeClock(100_000)
    store = replicating(disk, clock)
    shown = store.append(draft(body=b"1"))
    store.replicated_to(shown.end)
    clock.advance(60_000)
    store.append(draft(body=b"2"))
    clock.advance(60_000)
    store.append(draft(body=b"3"))
    store.flush()
    checkpoint = parse_checkpoint(disk.read(ROOT / "checkpoint"))
    assert checkpoint.consume_queue_ms == 159_999
    assert (checkpoint.flushed_offset, checkpoint.confirmed_offset) == (store.max_physical_offset, shown.end)
    assert bodies(store_of(disk.after_kill(), clock)) == [b"1", b"2", b"3"]


def test_an_orderly_stop_leaves_entries_of_what_was_held_and_tells_no_reader() -> None:
    disk = FakeDisk()
    store = replicating(disk)
    heard: list[str] = []
    store.on_arrived.append(lambda topic, queue_id, queue_offset, tag_code: heard.append("arrived"))
    result = store.append(draft(body=b"1"))
    store.close()
    assert heard == []
    assert UNIT.unpack(disk.read(ROOT / "consumequeue" / "orders" / "0" / f"{0:020}")[: UNIT.size])[1] == result.size
    assert bodies(replicating(disk)) == [b"1"]


def test_a_topic_that_is_deleted_while_a_message_waits_gets_no_entry_of_it() -> None:
    store = replicating()
    shown = store.append(draft(body=b"1"))
    store.replicated_to(shown.end)
    store.append(draft(body=b"2"))
    store.delete_topic("orders")
    store.replicated_to(store.max_physical_offset)
    assert bodies(store) == []
