"""A store that is a copy of another broker's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from cases import each_case
from orbitmq.errors import StoreError, StoreUnavailable
from orbitmq.model.message import Host
from orbitmq.store import Draft, FlushMode, Store, StoreConfig
from orbitmq.testing import FakeClock
from orbitmq.testing.fake_disk import FakeDisk
from orbitmq.wire.messages.record import Blank, Record, format_record, parse_record

CONFIG = StoreConfig(path=Path("/store"), segment_size=2_048, consume_queue_units=100, is_copy=True)


def open_store(disk: FakeDisk | None = None, config: StoreConfig = CONFIG) -> Store:
    return Store.open(config, store_host=Host("127.0.0.1", 1), clock=FakeClock(), disk=disk or FakeDisk())


def record(at: int, queue_offset: int = 0, body: bytes = b"x", topic: str = "t") -> tuple[Record | Blank, bytes]:
    content = format_record(topic=topic, body=body, physical_offset=at, queue_offset=queue_offset, stored_at_ms=1)
    return parse_record(content, at), content


def test_a_copied_message_can_be_read_and_is_told_to_listeners() -> None:
    store, arrived = open_store(), []
    store.on_arrived.append(lambda *place: arrived.append(place[:3]))
    found, content = record(0)
    store.append_copy(found, content)
    assert store.read("t", 0, 0).body == content
    assert store.max_physical_offset == len(content)
    assert arrived == [("t", 0, 0)]


def test_a_copy_takes_no_messages_of_its_own() -> None:
    store = open_store()
    with pytest.raises(StoreUnavailable, match="slave"):
        store.append(Draft("t", 0, b"x"))
    with pytest.raises(StoreUnavailable, match="slave"):
        store.append_batch([Draft("t", 0, b"x")])
    assert (store.max_physical_offset, store.issues) == (0, [])


def test_a_copy_may_begin_where_a_file_does(disk: FakeDisk) -> None:
    store = open_store(disk)
    store.append_copy(*record(4_096, queue_offset=9))
    assert (store.min_physical_offset, store.min_offset("t", 0), store.max_offset("t", 0)) == (4_096, 9, 10)
    end = store.max_physical_offset
    store.close()
    again = open_store(disk)
    assert (again.min_physical_offset, again.max_physical_offset) == (4_096, end)
    assert (again.min_offset("t", 0), again.max_offset("t", 0)) == (9, 10)
    again.append_copy(*record(end, queue_offset=10))
    assert again.max_offset("t", 0) == 11
    assert again.recovery_report.lost_head_size == 0


@pytest.mark.parametrize("seed", range(20))
def test_after_a_power_cut_a_copy_has_what_was_synced_and_goes_on(seed: int, disk: FakeDisk) -> None:
    store = open_store(disk)
    store.append_copy(*record(2_048, queue_offset=3))
    store.flush()
    end = store.max_physical_offset
    store.append_copy(*record(end, queue_offset=4))
    again = open_store(disk.after_power_cut(Random(seed)))
    assert again.max_physical_offset >= end
    kept = again.max_offset("t", 0)
    assert kept in (4, 5)
    again.append_copy(*record(again.max_physical_offset, queue_offset=kept))
    assert again.max_offset("t", 0) == kept + 1


def test_a_filler_closes_a_file_and_the_next_one_follows() -> None:
    store = open_store()
    _, content = record(0)
    store.append_copy(*record(0))
    store.append_copy(Blank(2_048 - len(content)), b"")
    assert store.max_physical_offset == 2_048
    store.append_copy(*record(2_048, queue_offset=1))
    assert store.read("t", 0, 1).message_count == 1


@each_case(1, 2_049)
def test_a_copy_begins_nowhere_else(at: int) -> None:
    store = open_store()
    with pytest.raises(StoreError, match="no file of 2048 bytes begins"):
        store.append_copy(*record(at))
    assert store.max_physical_offset == 0


def test_what_does_not_go_on_is_refused() -> None:
    store = open_store()
    store.append_copy(*record(0))
    end = store.max_physical_offset
    with pytest.raises(StoreError, match="does not go to"):
        store.append_copy(*record(end + 1))
    with pytest.raises(StoreError, match="filler"):
        store.append_copy(Blank(5), b"")
    with pytest.raises(StoreError, match="left of the file"):
        store.append_copy(*record(end, body=b"x" * 2_000))
    assert store.max_physical_offset == end


def test_a_message_that_fits_into_no_queue_is_in_the_log_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    store = open_store()
    store.append_copy(*record(0, queue_offset=5))
    end = store.max_physical_offset
    store.append_copy(*record(end, queue_offset=3))
    assert store.max_physical_offset > end
    assert "fits into no queue: 3" in caplog.text


def test_with_sync_flush_a_copy_is_synced_soon() -> None:
    store = open_store(config=replace(CONFIG, flush=FlushMode.SYNC))
    store.append_copy(*record(0))
    assert store.read("t", 0, 0).message_count == 1
    store.flush()
    assert store.durable_offset == store.max_physical_offset


def copy(master: Store, start: int, slave: Store) -> int:
    """Copy what a master's log has from `start` on; return its end."""
    while start < master.max_physical_offset:
        found = master.parsed_at(start)
        assert found is not None
        slave.append_copy(found, master.read_raw(start, found.size))
        start += found.size
    return start


def test_a_topic_that_is_deleted_and_made_again_is_so_on_its_copy(disk: FakeDisk) -> None:
    master = open_store(config=replace(CONFIG, path=Path("/m"), is_copy=False, waits_for_slaves=True))
    slave, deleted = open_store(disk), []
    slave.on_deleted.append(deleted.append)

    def send(topic: str, count: int) -> None:
        for _ in range(count):
            master.append(Draft(topic, 0, b"x"))
        master.replicated_to(master.max_physical_offset)

    send("t", 3)
    send("other", 2)
    end = copy(master, 0, slave)
    master.delete_topic("t")
    send("t", 2)
    end = copy(master, end, slave)
    assert deleted == ["t"]
    for store in (master, slave):
        assert [store.max_offset(topic, 0) for topic in ("t", "other")] == [2, 2]
        assert store.message_at("t", 0, 0).physical_offset > 3 * 90
    slave.close()
    again = open_store(disk)
    assert [again.max_offset(topic, 0) for topic in ("t", "other")] == [2, 2]
