"""One index file, filled and read."""

from __future__ import annotations

import errno

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orbitmq.errors import IndexDamaged, NotWritten
from orbitmq.store.index.index_file import IndexFile, IndexWriter
from orbitmq.store.index.layout import NO_ENTRIES, IndexEntry, IndexHeader, IndexSizes
from orbitmq.testing.fake_disk import FakeDisk

from .parts import INDEX

SIZES = IndexSizes(7, 40)
PATH = INDEX / "20260102030405006"


def writer_of(disk: FakeDisk | None = None, since_ms: int = 0, sizes: IndexSizes = SIZES) -> IndexWriter:
    writer = IndexWriter(disk or FakeDisk(), PATH, sizes, since_ms=since_ms)
    writer.make()
    return writer


def commit(writer: IndexWriter) -> None:
    writer.finish(writer.header)


def reader_of(disk: FakeDisk, sizes: IndexSizes = SIZES) -> IndexFile:
    reader = IndexFile(disk, PATH, sizes)
    reader.load_header()
    return reader


class PlainFile:
    """The file as Java fills it, entry by entry."""

    def __init__(self, since_ms: int = 0) -> None:
        self.begin_ms = since_ms
        self.header = NO_ENTRIES
        self.slots = [0] * SIZES.slots
        self.entries: list[IndexEntry] = []

    def put(self, key_hash: int, offset: int, time_ms: int) -> bool:
        number = self.header.next_number
        if number >= SIZES.entries:
            return False
        slot = key_hash % SIZES.slots
        seconds = 0 if self.begin_ms <= 0 else min(max((time_ms - self.begin_ms) // 1000, 0), 2**31 - 1)
        self.entries.append(IndexEntry(key_hash, offset, seconds, self.slots[slot]))
        used = self.header.used_slots + (self.slots[slot] == 0)
        self.slots[slot] = number
        if number <= 1:
            self.begin_ms = time_ms
            self.header = IndexHeader(time_ms, time_ms, offset, offset, used, 2)
        self.header = self.header._replace(end_ms=time_ms, end_offset=offset, used_slots=used, next_number=number + 1)
        return True


BATCH = st.lists(st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 5000)), min_size=1, max_size=15)


@settings(deadline=None)
@given(st.lists(BATCH, max_size=6), st.sampled_from([0, 1, 500_000]))
def test_batches_fill_a_file_as_java_fills_it_entry_by_entry(
    batches: list[list[tuple[int, int]]], since_ms: int
) -> None:
    disk, plain, writer = FakeDisk(), PlainFile(since_ms), writer_of(since_ms=since_ms)
    writer = IndexWriter(disk, PATH, SIZES, since_ms=since_ms)
    writer.make()
    time_ms, offset = 1_000_000, 0
    for batch in batches:
        hashes = [key_hash for key_hash, _ in batch]
        offsets = [offset := offset + step for _, step in batch]
        times = [time_ms := time_ms + step for _, step in batch]
        taken = writer.put(hashes, offsets, times)
        assert taken == sum(plain.put(*one) for one in zip(hashes, offsets, times, strict=True))
    assert writer.header == plain.header
    assert [writer.entry(number) for number in range(1, writer.header.next_number)] == plain.entries
    assert [writer.head(slot) for slot in range(SIZES.slots)] == plain.slots
    commit(writer)
    reader = reader_of(disk)
    assert reader.header == (plain.header if plain.entries else NO_ENTRIES)
    assert [reader.head(slot) for slot in range(SIZES.slots)] == plain.slots


def test_times_that_go_back_and_times_far_ahead_are_cut_as_java_cuts_them() -> None:
    writer = writer_of()
    writer.put([1, 2, 3], [0, 1, 2], [10_000, 5_000, 10_000 + 2**33 * 1000])
    assert [writer.entry(number).seconds for number in (1, 2, 3)] == [0, 0, 2**31 - 1]


def test_what_the_disk_refuses_is_not_there(disk: FakeDisk) -> None:
    writer = writer_of(disk)
    writer.put([1, 1], [0, 1], [5, 5])
    before = writer.header
    disk.failures["pwrite"] = OSError(errno.ENOSPC, "full")
    with pytest.raises(NotWritten):
        writer.put([1, 8, 2], [2, 3, 4], [6, 6, 6])
    assert writer.header == before
    assert [writer.head(slot) for slot in (1, 2)] == [2, 0]
    del disk.failures["pwrite"]
    assert writer.put([1, 8, 2], [2, 3, 4], [6, 6, 6]) == 3
    assert [writer.entry(number).previous for number in (3, 4, 5)] == [2, 3, 0]


def filled(disk: FakeDisk) -> IndexWriter:
    writer = writer_of(disk)
    writer.put([1, 2, 1, 8, 3], [0, 1, 2, 3, 4], [5] * 5)
    return writer


@pytest.mark.parametrize("count", [1, 3, 5])
def test_slots_are_made_of_the_entries_and_what_a_crash_left_behind_them_is_gone(count: int, disk: FakeDisk) -> None:
    writer = filled(disk)
    commit(writer)
    before = [writer.head(slot) for slot in range(SIZES.slots)]
    loaded = IndexWriter(disk, PATH, SIZES, writer.header._replace(next_number=count + 1))
    assert not loaded.is_loaded
    loaded.load()
    assert loaded.is_loaded
    assert loaded.header.used_slots == [1, 0, 2, 0, 3][count - 1]
    commit(loaded)
    heads = [reader_of(disk).head(slot) for slot in range(SIZES.slots)]
    assert [heads[slot] for slot in (1, 2, 3)] == {1: [1, 0, 0], 3: [3, 2, 0], 5: [4, 2, 5]}[count]
    assert (heads == before) is (count == 5)


@pytest.mark.parametrize("lost", [3, 4])
def test_entries_that_do_not_follow_one_another_are_damage(lost: int, disk: FakeDisk) -> None:
    writer = filled(disk)
    at = SIZES.entries_at + lost * 20
    disk.files[PATH].buffer[at : at + 20] = bytes(20)
    loaded = IndexWriter(disk, PATH, SIZES, writer.header)
    with pytest.raises(IndexDamaged, match="between its entries 1 and 6"):
        loaded.load()


def test_a_file_that_was_deleted_is_not_made_again_by_looking_at_it(disk: FakeDisk) -> None:
    writer = filled(disk)
    commit(writer)
    writer.release()
    assert (writer.head(1), writer.head(2)) == (4, 2)  # from the disk
    writer.rest()
    disk.remove(PATH)
    with pytest.raises(FileNotFoundError):
        writer.head(1)
    assert PATH not in disk.files
