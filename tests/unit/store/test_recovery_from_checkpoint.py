"""Recovery from a checkpoint: what it may cover, what is read again and wiped, next to damage."""

from pathlib import Path

import pytest

from orbitmq.model.message import Host
from orbitmq.store import Draft, Store, StoreConfig
from orbitmq.store.sync.checkpoint import StoreCheckpoint, format_checkpoint, parse_checkpoint
from orbitmq.testing.fake_disk import FakeDisk
from orbitmq.wire.messages.record import iter_records

from .parts import entries_end_at

ROOT = Path("/store")
CONFIG = StoreConfig(path=ROOT, segment_size=8192, consume_queue_units=128)
LOG_FILE = ROOT / "commitlog" / f"{0:020}"
QUEUE_FILE = ROOT / "consumequeue" / "orders" / "0" / f"{0:020}"
T0 = 1_700_000_000_000


def open_store(disk):
    return Store.open(CONFIG, store_host=Host("127.0.0.1", 1), clock=lambda: T0, disk=disk)


@pytest.fixture
def disk():
    """A disk as `kill -9` leaves it: thirty-one messages of one second each."""
    disk, now_ms = FakeDisk(), T0
    store = Store.open(CONFIG, store_host=Host("127.0.0.1", 1), clock=lambda: now_ms, disk=disk)
    for number in range(31):
        now_ms = T0 + number * 1000
        store.append(Draft("orders", 0, b"number %02d" % number))
    store.flush()
    disk.remove(ROOT / "checkpoint")
    return disk.after_kill()


def damage(disk, number):
    buffer = disk.files[LOG_FILE].buffer
    buffer[buffer.index(b"number %02d" % number)] ^= 1


def cover(disk, commit_log_ms, consume_queue_ms=None):
    """Let the checkpoint cover the log up to three seconds before `commit_log_ms`."""
    entries_end = entries_end_at(disk, commit_log_ms - 3000)
    checkpoint = StoreCheckpoint(
        commit_log_ms, commit_log_ms if consume_queue_ms is None else consume_queue_ms, 7, 8, 9, entries_end
    )
    disk.write(ROOT / "checkpoint", format_checkpoint(checkpoint))


def offsets(store):
    return [record.queue_offset for record in iter_records(store.read("orders", 0, 0, 1000, 1 << 20).body)]


def test_while_entries_are_written_again_the_checkpoint_does_not_cover_them(disk):
    cover(disk, T0 + 30_000)
    store = open_store(disk)
    # Read again from the last record that is covered: number 27.
    assert store.recovered.record_count == 4
    assert parse_checkpoint(disk.read(ROOT / "checkpoint")) == (
        T0 + 30_000, T0 + 29_999, 7, 8, 9, store.recovered.start,
    )  # fmt: skip


def test_starts_that_are_killed_one_after_the_other_each_begin_one_message_earlier(disk):
    cover(disk, T0 + 30_000)
    counts = []
    for _ in range(4):
        counts.append(open_store(disk).recovered.record_count)
        disk = disk.after_kill()
    assert counts == [4, 5, 6, 7]


def test_a_checkpoint_that_covers_less_is_not_raised(disk):
    cover(disk, T0 + 30_000, 5)
    open_store(disk)
    assert parse_checkpoint(disk.read(ROOT / "checkpoint"))[:2] == (T0 + 30_000, 5)


def test_damage_in_an_old_message_costs_no_later_one(disk):
    for number in range(29):
        damage(disk, number)
    cover(disk, T0 + 32_500)
    store = open_store(disk)
    assert store.recovered.record_count == 2
    assert store.max_offset("orders", 0) == 31
    assert store.message_at("orders", 0, 30).queue_offset == 30


@pytest.mark.parametrize("number", [0, 15, 30])
def test_what_the_checkpoint_covers_is_not_read_again(disk, number):
    cover(disk, T0 + number * 1000 + 3000)
    assert open_store(disk).recovered.record_count == 31 - number


@pytest.mark.parametrize("covered", [False, True])
def test_what_a_torn_sector_left_behind_the_last_entry_is_wiped(disk, covered):
    buffer = disk.files[QUEUE_FILE].buffer
    buffer[100 * 20 : 101 * 20] = b"\x07" * 20
    if covered:
        cover(disk, T0 + 60_000)
    store = open_store(disk)
    assert store.max_offset("orders", 0) == 31
    store.flush()
    assert not any(disk.files[QUEUE_FILE].buffer[31 * 20 :])
    assert offsets(store) == list(range(31))


def test_a_log_that_is_cut_at_its_first_record_is_cut_on_the_disk_as_well(disk):
    damage(disk, 0)
    store = open_store(disk)
    assert (store.recovered.end, store.recovered.record_count) == (0, 0)
    assert disk.files[LOG_FILE].durable == bytes(8192)
    assert store.append(Draft("orders", 0, b"first")).queue_offset == 0


def test_what_is_read_again_is_written_again_so_that_it_is_synced_upstream_2706(disk):
    disk.files[LOG_FILE].durable = None
    store = open_store(disk)
    assert store.durable_offset == store.max_physical_offset
    assert disk.files[LOG_FILE].durable == bytes(disk.files[LOG_FILE].buffer)


def test_records_that_are_read_again_are_written_again(disk):
    class Seen(bytearray):
        def __setitem__(self, key, value):
            if isinstance(key, slice):
                written.append((key.start, key.stop, bytes(self[key]) == bytes(value)))
            super().__setitem__(key, value)

    written = []
    disk.files[LOG_FILE].buffer = Seen(disk.files[LOG_FILE].buffer)
    cover(disk, T0 + 20_000)
    recovered = open_store(disk).recovered
    assert (recovered.start, recovered.end, True) in written


def test_after_an_orderly_stop_messages_that_were_cleaned_away_make_no_later_one_be_read_again():
    config = StoreConfig(path=ROOT, segment_size=1024, consume_queue_units=128)

    disk = FakeDisk()

    def opened():
        return Store.open(config, store_host=Host("127.0.0.1", 1), clock=lambda: T0, disk=disk)

    store = opened()
    for _ in range(40):
        store.append(Draft("orders", 0, bytes(200)))
    store.close()
    for name in disk.names(ROOT / "commitlog")[:-2]:
        disk.remove(ROOT / "commitlog" / name)
    store = opened()
    assert store.recovered.record_count == 1
    assert 30 < store.min_offset("orders", 0) < store.max_offset("orders", 0) == 40
