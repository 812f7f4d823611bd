"""Building behind the log: damage, disks that refuse, crashes and power cuts at any moment."""

from __future__ import annotations

import contextlib
import errno
from random import Random

import pytest

from orbitmq.errors import StoreBusy
from orbitmq.store import FlushMode, Store, StoreConfig
from orbitmq.store.index.search import IndexQuery
from orbitmq.testing import FakeClock
from orbitmq.testing.fake_disk import FakeDisk, PowerCut
from orbitmq.wire.messages.record import iter_records

from ..parts import HOST, ROOT, draft
from .parts import ALWAYS, INDEX, indexed, keyed, numbers


def test_records_larger_than_a_slice_have_their_keys() -> None:
    store = indexed(segment_size=1 << 20)
    for number in range(4):
        store.append(keyed(number, "k")._replace(body=b"%d" % number + b" " * 200_000))
    assert numbers(store, "k") == [0, 1, 2, 3]


def test_messages_without_keys_and_fillers_are_passed_over() -> None:
    store = indexed(segment_size=1024)
    for number in range(40):
        store.append(draft(body=b"x" * 100))
        if number % 10 == 0:
            store.append(keyed(number, "k"))
    assert numbers(store, "k") == [0, 10, 20, 30]
    assert store.index is not None
    assert store.index.behind == 0


def test_a_message_with_thousands_of_keys_is_indexed_under_each() -> None:
    store = indexed(index_slots=1000, index_entries=20_000, segment_size=1 << 20)
    store.append(keyed(1, " ".join(f"k{n}" for n in range(5000))))
    store.append(keyed(2, "k4999"))
    assert numbers(store, "k0") == [1]
    assert numbers(store, "k4999") == [1, 2]


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("flush", FlushMode)
def test_files_are_the_same_whether_keys_were_noted_or_not(flush: FlushMode, seed: int) -> None:
    built = []
    for noted_share in (0.0, 0.5, 0.9, 1.0):
        random, disk, clock = Random(seed), FakeDisk(), FakeClock(1_000_000)
        store = indexed(disk, clock, flush=flush, segment_size=random.choice([2048, 1 << 16]))
        index = store.index
        assert index is not None
        for number in range(200):
            clock.advance(random.choice([0, 0, 700]))
            words = random.choice(["", "", "a", "a  b"])
            stored = store.append(keyed(number, words))
            if random.random() < noted_share:
                place = (stored.physical_offset, stored.size, stored.stored_at_ms)
                store.note_key((*place, "orders", b"U%d" % number, words.encode()))
            if random.random() < 0.1:
                store.flush()
            if random.random() < 0.05:
                index._builder.step()
        store.flush()
        assert numbers(store, "U150") == [150]
        store.close()
        built.append([bytes(disk.files[path].buffer) for path in sorted(disk.files) if path.parent == INDEX])
    assert len(built[0]) > 5
    assert built[1:] == built[:1] * 3


def test_what_was_noted_of_messages_that_the_disk_does_not_have_yet_is_used_when_it_has_them() -> None:
    store = indexed(flush=FlushMode.SYNC)
    assert store.index is not None
    builder = store.index._builder
    for number in range(20):
        stored = store.append(keyed(number)._replace(properties=f"UNIQ_KEY\x01U{number}\x02".encode()))
        store.note_key((stored.physical_offset, stored.size, stored.stored_at_ms, "orders", b"U%d" % number, b""))
        if number == 9:
            store.flush()
    assert builder.step()
    assert [key for *_, key, _words in builder.noted] == [b"U%d" % number for number in range(10, 20)]
    store.flush()
    builder._read_log = None  # type: ignore[method-assign, assignment]
    assert numbers(store, "U15") == [15]
    assert builder.behind == 0


def test_of_messages_among_noted_ones_only_themselves_are_read_from_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    store = indexed()
    assert store.index is not None
    builder, read = store.index._builder, list[int]()
    for number in range(10, 40):
        stored = store.append(keyed(number)._replace(properties=f"UNIQ_KEY\x01U{number}\x02".encode()))
        if number % 10:
            store.note_key((stored.physical_offset, stored.size, stored.stored_at_ms, "orders", b"U%d" % number, b""))
    of_log = builder._commit_log.read

    def noted_read(place: int, size: int) -> bytes:
        read.append(size)
        return of_log(place, size)

    monkeypatch.setattr(builder._commit_log, "read", noted_read)
    while builder.step():
        pass
    assert builder.behind == 0
    assert (len(read), sum(read)) == (3, 3 * stored.size)
    assert [numbers(store, f"U{number}") for number in (19, 20, 21, 39)] == [[19], [20], [21], [39]]


def test_damage_in_the_log_is_passed_over(disk: FakeDisk) -> None:
    store = indexed(disk)
    places = [store.append(keyed(number, "k")).physical_offset for number in range(10)]
    store.close()
    for path in [path for path in disk.files if path.parent == INDEX]:
        disk.remove(path)
    log = next(file for path, file in disk.files.items() if path.parent == ROOT / "commitlog")
    log.buffer[places[4] : places[4] + 30] = b"\xff" * 30
    store = indexed(disk)
    assert numbers(store, "k") == [0, 1, 2, 3, 5, 6, 7, 8, 9]


def test_a_record_that_is_damaged_behind_its_keys_has_the_index_rebuilt_once(disk: FakeDisk) -> None:
    store = indexed(disk)
    stored = [store.append(keyed(number, "k")) for number in range(4)]
    log = next(file for path, file in disk.files.items() if path.parent == ROOT / "commitlog")
    at = log.buffer.index(b"UNIQ_KEY", stored[2].physical_offset) - 2
    log.buffer[at : at + 2] = b"\0\1"  # the size of its properties
    with pytest.raises(StoreBusy, match="where no message begins"):
        numbers(store, "k")
    assert numbers(store, "k") == numbers(store, "k") == [0, 1, 3]


@pytest.mark.parametrize("operation", ["open", "pwrite"])
def test_what_a_full_disk_refuses_comes_later_once_each(operation: str, disk: FakeDisk) -> None:
    store = indexed(disk)
    for number in range(30):
        store.append(keyed(number, "k"))
    index = store.index
    assert index is not None
    disk.failures[operation] = OSError(errno.ENOSPC, "full")
    found: list[object] = []
    with pytest.raises(OSError, match="full"):
        store.query(IndexQuery("orders", "k", 64, *ALWAYS), found.append)
    assert index.failure is not None
    assert "full" in index.failure
    disk.failures.clear()
    assert numbers(store, "k") == list(range(30))
    headers = [file.header for file in index._files.files]
    assert sum(header.next_number - 1 for header in headers) == 60


def test_a_stop_whose_index_does_not_get_to_the_disk_is_not_an_orderly_one(disk: FakeDisk) -> None:
    store = indexed(disk)
    store.append(keyed(1, "k"))
    assert numbers(store, "k") == [1]
    index = store.index
    assert index is not None
    finish = index._finish_last

    def refuse() -> None:
        disk.failures["pwrite"] = OSError(errno.ENOSPC, "full")
        finish()

    index._finish_last = refuse  # type: ignore[method-assign]
    store.close()
    disk.failures.clear()
    assert disk.exists(ROOT / "abort")
    assert numbers(indexed(disk), "k") == [1]


class Life:
    """A store whose power goes; what was flushed must be found by its key afterwards, and nothing twice."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.config = StoreConfig(
            path=ROOT,
            segment_size=random.choice([2048, 16384]),
            consume_queue_units=64,
            flush=random.choice([FlushMode.ASYNC, FlushMode.SYNC]),
            has_index=True,
            index_slots=random.choice([1, 8, 2000]),
            index_entries=random.choice([5, 40, 500]),
        )
        self.disk = FakeDisk()
        self.clock = FakeClock(1_000_000)
        self.sent = 0
        self.kept = 0
        self.store: Store | None = None

    def open(self) -> Store:
        self.store = Store.open(self.config, store_host=HOST, clock=self.clock, disk=self.disk)
        return self.store

    def live(self) -> None:
        store = self.open()
        for _ in range(self.random.randrange(1, 60)):
            chance = self.random.random()
            if chance < 0.6:
                self.clock.advance(self.random.choice([0, 0, 1, 700, 5000]))
                store.append(keyed(self.sent, f"r{self.sent % 3}"))
                self.sent += 1
            elif chance < 0.75:
                sent = self.sent
                store.flush()
                self.kept = sent
            elif chance < 0.95:
                self.look(store)
            else:
                assert store.index is not None
                store.index._seal_now()
        if self.random.random() < 0.3:
            sent = self.sent
            store.close()
            self.kept = sent

    def look(self, store: Store) -> None:
        found = [numbers(store, f"r{rest}", 10_000) for rest in range(3)]
        for rest in range(3):
            assert found[rest] == sorted(set(found[rest]))
            assert all(number % 3 == rest for number in found[rest])
        everything = sorted(number for part in found for number in part)
        assert everything[: self.kept] == list(range(self.kept))
        assert everything == list(range(len(everything)))
        index = store.index
        assert index is not None
        assert sum(file.header.next_number - 1 for file in index._files.files) >= 2 * len(everything)
        one = self.random.randrange(self.sent + 1)
        assert numbers(store, f"U{one}") == [one] * (one < len(everything))

    def cut_power(self) -> None:
        self.disk = self.disk.after_power_cut(self.random)


@pytest.mark.parametrize("seed", range(60))
def test_after_power_cuts_every_message_of_the_log_is_found_once(seed: int) -> None:
    life = Life(Random(seed))
    for _ in range(4):
        life.disk.cut_at = life.disk.operation_count + life.random.randrange(1, 150)
        with contextlib.suppress(PowerCut):
            life.live()
        life.disk.cut_at = None
        life.cut_power()
        store = life.open()
        life.sent = max(life.kept, len(list(everything(store))))
        life.look(store)
        life.kept = life.sent
        store.flush()
        store._close_files()
        life.disk.locked.clear()


def everything(store: Store) -> list[int]:
    found = []
    for queue_id in store.queue_ids("orders"):
        body = store.read("orders", queue_id, 0, 100_000, 1 << 30).body
        found += [int(bytes(record.body)) for record in iter_records(body)]
    return found
