"""One index file, filled and read."""

from __future__ import annotations

import contextlib
import errno
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orbitmq.errors import NotWritten
from orbitmq.store.index.index_file import (
    HEADER,
    NO_ENTRIES,
    IndexEntry,
    IndexFile,
    IndexHeader,
    IndexSizes,
    IndexWriter,
    flaw_of,
    parse_header,
)
from orbitmq.testing.fake_disk import FakeDisk, PowerCut

from .parts import INDEX

SIZES = IndexSizes(7, 40)
PATH = INDEX / "20260102030405006"


def writer_of(disk: FakeDisk | None = None, since_ms: int = 0, sizes: IndexSizes = SIZES) -> IndexWriter:
    return IndexWriter(disk or FakeDisk(), PATH, sizes, since_ms=since_ms)


def commit(writer: IndexWriter) -> None:
    writer.finish()


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


def test_a_file_that_was_finished_is_filled_further(disk: FakeDisk) -> None:
    commit(filled(disk))
    writer = IndexWriter(disk, PATH, SIZES, reader_of(disk).header)
    assert writer.put([1, 4], [5, 6], [6, 6]) == 2
    assert [writer.entry(number).previous for number in (6, 7)] == [4, 0]
    commit(writer)
    reader = reader_of(disk)
    assert [reader.head(slot) for slot in range(SIZES.slots)] == [0, 6, 2, 5, 7, 0, 0]
    assert reader.header == writer.header


@pytest.mark.parametrize("seed", range(20))
def test_a_header_with_entries_means_that_slots_and_entries_are_on_the_disk(seed: int) -> None:
    disk, random = FakeDisk(), Random(seed)
    commit(filled(disk))
    writer = IndexWriter(disk, PATH, SIZES, reader_of(disk).header)
    writer.put([1, 4], [5, 6], [6, 6])
    disk.cut_at = disk.operation_count + random.randrange(1, 8)
    with contextlib.suppress(PowerCut):
        commit(writer)
    reader = reader_of(disk.after_power_cut(random))
    if reader.header != NO_ENTRIES:
        count = reader.header.next_number
        assert [reader.head(slot) for slot in (1, 2, 3, 4)] == ([4, 2, 5, 0] if count == 6 else [6, 2, 5, 7])


def test_a_file_that_was_deleted_is_not_made_again_by_looking_at_it(disk: FakeDisk) -> None:
    writer = filled(disk)
    commit(writer)
    writer.close()
    assert (writer.head(1), writer.head(2)) == (4, 2)  # from the disk
    writer.rest()
    disk.remove(PATH)
    with pytest.raises(FileNotFoundError):
        writer.head(1)
    assert PATH not in disk.files


TEN = IndexSizes(10, 20)
GOOD = IndexHeader(begin_ms=1000, end_ms=2000, begin_offset=0, end_offset=500, used_slots=3, next_number=5)


def test_sizes_are_javas() -> None:
    assert IndexSizes().file_size == 420_000_040
    assert (TEN.entries_at, TEN.file_size) == (80, 480)


@pytest.mark.parametrize("count", [0, 1, -5])
def test_a_file_without_entries_begins_with_number_1(count: int) -> None:
    assert parse_header(HEADER.pack(0, 0, 0, 0, 0, count)) == NO_ENTRIES


def test_a_header_comes_back() -> None:
    assert parse_header(HEADER.pack(*GOOD)) == GOOD


def test_a_good_header_has_no_flaw() -> None:
    assert flaw_of(GOOD, TEN, 0, 501) is None


@pytest.mark.parametrize(
    "change",
    [
        {"next_number": 21},
        {"used_slots": -1},
        {"used_slots": 5},
        {"next_number": 20, "used_slots": 11},
        {"begin_offset": 501},
        {"begin_offset": -1},
        {"next_number": 1, "used_slots": 0},
        {"end_offset": 501},
    ],
)
def test_a_header_that_cannot_be_has_a_flaw(change: dict[str, int]) -> None:
    assert flaw_of(GOOD._replace(**change), TEN, 0, 501)
