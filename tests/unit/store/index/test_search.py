"""Searches: what is found, in which order, and how hostile files end them."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orbitmq.errors import StoreBusy, StoreUnavailable
from orbitmq.store import Store
from orbitmq.store.index.hashes import key_hash
from orbitmq.store.index.index_file import IndexEntry, IndexFile, IndexHeader, IndexSizes
from orbitmq.store.index.search import ANSWER_SIZE_MAX, IndexQuery, Search
from orbitmq.testing import FakeClock
from orbitmq.testing.fake_disk import FakeDisk
from orbitmq.wire.messages.record import Record, format_record, parse_record
from seeds import examples

from .parts import ALWAYS, ENTRIES, INDEX, SLOTS, ask, indexed, keyed, numbers


def test_the_newest_messages_come_in_the_order_of_the_log_over_all_files() -> None:
    store = indexed()
    for number in range(100):
        store.append(keyed(number, f"even{number % 2}"))
    assert numbers(store, "even1") == list(range(1, 100, 2))
    assert numbers(store, "even0", 3) == [94, 96, 98]
    assert numbers(store, "U42") == [42]
    assert numbers(store, "even0", 0) == numbers(store, "nothing") == []
    assert store.index is not None
    assert store.index.file_count > 5


def test_another_topic_has_keys_of_its_own() -> None:
    store = indexed()
    store.append(keyed(1, "k"))
    store.append(keyed(2, "k", topic="bills"))
    assert numbers(store, "k", topic="bills") == [2]
    assert numbers(store, "k", topic="none") == []


def test_keys_of_one_hash_are_told_apart() -> None:
    store = indexed(index_slots=1)
    store.append(keyed(1, "Aa"))
    store.append(keyed(2, "BB"))  # "Aa" and "BB" have one hash in Java
    assert (numbers(store, "Aa"), numbers(store, "BB")) == ([1], [2])


def test_a_message_comes_once_although_it_has_its_key_twice() -> None:
    store = indexed()
    store.append(keyed(1, "k U1 k"))
    assert numbers(store, "k") == numbers(store, "U1") == [1]


def test_times_are_compared_to_the_millisecond_and_both_ends_count() -> None:
    clock = FakeClock(1000)
    store = indexed(clock=clock)
    for number in range(60):
        store.append(keyed(number, "k"))
        clock.advance(700)
    assert numbers(store, "k", times=(1000 + 700 * 10, 1000 + 700 * 12)) == [10, 11, 12]
    assert numbers(store, "k", times=(1001 + 700 * 10, 999 + 700 * 12)) == [11]
    assert numbers(store, "k", 2, times=(0, 1000 + 700 * 12)) == [11, 12]
    assert numbers(store, "k", times=(1 << 62, 1 << 63)) == numbers(store, "k", times=(50, 40)) == []


def test_the_first_entry_after_a_long_pause_is_found_by_its_time() -> None:
    clock = FakeClock(1000)
    store = indexed(clock=clock)
    for number in range(19):
        store.append(keyed(number))
    clock.advance(86_400_000)  # Java lets the first entry of a file count from the file before
    store.append(keyed(19, "late"))
    assert numbers(store, "U19", times=(86_401_000, 86_401_000)) == [19]
    assert numbers(store, "late", times=(86_401_000, 86_401_000)) == [19]


def test_an_answer_says_how_far_the_index_goes() -> None:
    store = indexed(clock=FakeClock(5000))
    store.append(keyed(1, "k"))
    last = store.append(keyed(2, "m"))
    found = ask(store, "k")
    assert (found.index_end_ms, found.index_end_offset) == (5000, last.physical_offset)
    assert ask(store, "nothing")[1:] == (0, 0, 0)


def test_an_answer_has_a_size_and_at_least_one_message() -> None:
    reads = {place: (record_of("orders"), b"x" * (ANSWER_SIZE_MAX // 2 + 1)) for place in (0, 1)}
    assert search_of(reads).result().message_count == 1
    reads = {0: (record_of("orders"), b"x" * (2 * ANSWER_SIZE_MAX))}
    assert search_of(reads).result().message_count == 1


class Places(IndexFile):
    """An index file of one slot whose entries all have the key: without a file."""

    def __init__(self, places: Sequence[int]) -> None:
        self.sizes = IndexSizes(1, len(places) + 1)
        self.header = IndexHeader(0, 9, 0, max(places), 1, len(places) + 1)
        self.looked = 0
        self._entries = [IndexEntry(key_hash("orders", "k"), place, 0, number) for number, place in enumerate(places)]

    @property
    def has_size(self) -> bool:
        return True

    def head(self, slot: int) -> int:
        return len(self._entries)

    def entry(self, number: int) -> IndexEntry:
        self.looked += 1
        return self._entries[number - 1]

    def rest(self) -> None:
        pass


def record_of(topic: str) -> Record:
    record = parse_record(format_record(topic=topic, body=b"", properties=b"KEYS\x01k"))
    assert isinstance(record, Record)
    return record


def search_of(reads: dict[int, tuple[Record, bytes]]) -> Search:
    search = Search(IndexQuery("orders", "k", 64, *ALWAYS), [Places(list(reads))], reads.get)
    assert search.step(1000)
    return search


def test_a_long_chain_is_walked_in_turns() -> None:
    places = Places(list(range(2500)))
    search = Search(IndexQuery("orders", "k", 64, *ALWAYS), [places], lambda place: None)
    turns = 1
    while not search.step(1000):
        assert places.looked <= turns * 1000
        turns += 1
    assert turns == 3
    assert search.result().message_count == 0


@pytest.mark.parametrize(
    ("at", "damage"),
    [(0, bytes(20)), (0, b"\xff"), (3, b"\x01"), (4, b"\x80"), (4, b"\x00\x01"), (16, b"\x7f"), (19, b"\x04")],
    ids=["zeros", "a negative hash", "another hash", "a negative place", "a place behind", "no entry", "a circle"],
)
def test_an_entry_that_cannot_be_of_its_slot_has_its_file_rebuilt(at: int, damage: bytes, disk: FakeDisk) -> None:
    store = indexed(disk, index_slots=7)
    for number in range(3):
        store.append(keyed(number, "k"))
    assert numbers(store, "k") == [0, 1, 2]
    (path,) = [path for path in disk.files if path.parent == INDEX]
    content, start = disk.files[path].buffer, 40 + 7 * 4 + 4 * 20 + at
    assert content[start : start + len(damage)] != damage
    content[start : start + len(damage)] = damage
    assert numbers(store, "k", 1) == [2]
    with pytest.raises(StoreBusy, match=f"{path} is damaged at its entry 4; it is rebuilt"):
        numbers(store, "k")
    assert numbers(store, "k") == [0, 1, 2]


@pytest.mark.parametrize("number", [-1, 20, 2**31 - 1])
def test_a_slot_that_leads_to_no_entry_has_its_file_rebuilt(number: int, disk: FakeDisk) -> None:
    store = indexed(disk, index_slots=1)
    for at in range(12):
        store.append(keyed(at, "k"))
    store.close()
    path = min(path for path in disk.files if path.parent == INDEX)
    disk.files[path].buffer[40:44] = struct.pack(">i", number)
    store = indexed(disk, index_slots=1)
    with pytest.raises(StoreBusy, match=f"{path} is damaged at its slot 0"):
        numbers(store, "k")
    assert numbers(store, "k") == list(range(12))


def test_an_entry_that_leads_to_no_message_is_an_error(disk: FakeDisk) -> None:
    store = indexed(disk)
    for number in range(4):
        store.append(keyed(number, "k"))
    store.close()
    (path,) = [path for path in disk.files if path.parent == INDEX]
    place = 40 + SLOTS * 4 + 4 * 20 + 4
    (offset,) = struct.unpack_from(">q", disk.files[path].buffer, place)
    struct.pack_into(">q", disk.files[path].buffer, place, offset + 1)
    store = indexed(disk)
    with pytest.raises(StoreUnavailable, match=f"leads to {offset + 1}, where no message begins"):
        numbers(store, "k")
    assert numbers(store, "k") == [0, 1, 2, 3]


def numbers_unless_damaged(store: Store, key: str) -> list[int]:
    """Return what a search finds, nothing when it is refused because of a damaged file."""
    try:
        return numbers(store, key)
    except StoreUnavailable as error:
        if "damaged" not in str(error):
            raise
        return []


@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_garbled_index_files_never_hang_nor_bring_a_wrong_message(data: st.DataObject) -> None:
    disk = FakeDisk()
    store = indexed(disk)
    for number in range(40):
        store.append(keyed(number, f"k{number % 4}"))
    store.close()
    files = sorted(path for path in disk.files if path.parent == INDEX)
    for _ in range(data.draw(st.integers(1, 12))):
        file = disk.files[data.draw(st.sampled_from(files))].buffer
        at = data.draw(st.integers(0, len(file) // 4 - 1)) * 4
        file[at : at + 4] = struct.pack(">I", data.draw(st.integers(0, 2**32 - 1) | st.integers(0, ENTRIES + 1)))
    store = indexed(disk)
    for rest in range(4):
        found = numbers_unless_damaged(store, f"k{rest}")
        assert found == sorted(set(found))
        assert all(number % 4 == rest for number in found)
    store.append(keyed(99, "k3"))
    assert numbers_unless_damaged(store, "U99") in ([99], [])
    store.close()
