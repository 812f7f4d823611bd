"""Which index files a start trusts, and what becomes of the others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from orbitmq.store import Store
from orbitmq.store.index.index_file import HEADER
from orbitmq.store.index.index_files import index_name, is_index_name
from orbitmq.testing import FakeClock
from orbitmq.testing.fake_disk import FakeDisk

from ..parts import ROOT
from .parts import ENTRIES, INDEX, indexed, keyed, numbers


def filled(disk: FakeDisk, count: int = 50, clock: FakeClock | None = None) -> Store:
    store = indexed(disk, clock)
    for number in range(count):
        store.append(keyed(number, "all"))
    assert numbers(store, "all", 1) == [count - 1]
    return store


def crash(store: Store) -> None:
    store.flush()
    store._close_files()


def files(disk: FakeDisk) -> list[Path]:
    return sorted(path for path in disk.files if path.parent == INDEX)


def is_whole(store: Store, count: int = 50) -> bool:
    return numbers(store, "all") == list(range(count))


def test_a_file_is_named_by_the_local_time_it_was_begun() -> None:
    assert is_index_name(index_name(1_700_000_000_123))
    assert index_name(1_700_000_000_123).endswith("123")
    assert not is_index_name("2026")
    assert not is_index_name("x" * 17)


def test_files_begun_in_one_millisecond_or_with_a_clock_set_back_keep_their_order() -> None:
    disk, clock = FakeDisk(), FakeClock(10_000)
    store = filled(disk, clock=clock)
    clock.set(5000)
    for number in range(50, 90):
        store.append(keyed(number, "all"))
    assert is_whole(store, 90) is False  # an answer has 64 messages at most
    assert numbers(store, "all", 90) == list(range(90))
    names = [path.name for path in files(disk)]
    assert len(set(names)) == len(names) > 8
    store.close()
    assert numbers(indexed(disk), "all", 90) == list(range(90))


def test_after_an_orderly_stop_nothing_is_read_again(disk: FakeDisk) -> None:
    filled(disk).close()
    store = indexed(disk)
    assert store.index is not None
    assert store.index.behind == 0
    assert is_whole(store)


def test_a_log_without_an_index_gets_one(disk: FakeDisk) -> None:
    filled(disk).close()
    for path in files(disk):
        disk.remove(path)
    store = indexed(disk)
    assert store.index is not None
    assert store.index.behind == store.max_physical_offset
    assert is_whole(store)


def test_files_are_filled_further_after_an_orderly_stop(disk: FakeDisk) -> None:
    filled(disk).close()
    before = {path: bytes(disk.files[path].buffer) for path in files(disk)}
    store = indexed(disk)
    assert store.index is not None
    assert store.index.behind == 0
    assert is_whole(store)
    store.append(keyed(50, "all"))
    assert is_whole(store, 51)
    store.close()
    assert {path: bytes(disk.files[path].buffer) for path in files(disk)[: len(before) - 1]} == dict(
        list(before.items())[:-1]
    )


def test_after_a_crash_files_are_kept_up_to_the_last_full_one_that_the_checkpoint_covers() -> None:
    disk, clock = FakeDisk(), FakeClock(1000)
    store = indexed(disk, clock)
    for number in range(50):
        store.append(keyed(number, "all"))
        clock.advance(100)
    assert is_whole(store)
    store.close()
    disk.write(ROOT / "abort", b"1")
    kept = files(disk)[:-1]
    store = indexed(disk, clock)
    assert files(disk) == kept != []
    assert is_whole(store)


def test_after_kill_9_everything_is_found(disk: FakeDisk) -> None:
    filled(disk).close()
    store = indexed(disk)
    store.append(keyed(50, "all"))
    assert is_whole(store, 51)
    crash(store)
    assert is_whole(indexed(disk), 51)


def cut(disk: FakeDisk, path: Path) -> None:
    disk.files[path].buffer = disk.files[path].buffer[:100]


def zero_header(disk: FakeDisk, path: Path) -> None:
    disk.files[path].buffer[:40] = bytes(40)


def last_entry_of_later_message(disk: FakeDisk, path: Path) -> None:
    header = HEADER.unpack_from(disk.files[path].buffer)
    HEADER.pack_into(disk.files[path].buffer, 0, *header[:3], 1 << 40, *header[4:])


@pytest.mark.parametrize("which", [0, 1, -1])
@pytest.mark.parametrize("damage", [cut, zero_header, last_entry_of_later_message])
def test_a_file_that_differs_from_the_log_is_rebuilt_with_those_behind_it(
    damage: Callable[[FakeDisk, Path], None], which: int, disk: FakeDisk
) -> None:
    filled(disk).close()
    before = files(disk)
    damage(disk, before[which])
    store = indexed(disk)
    assert files(disk) == before[: before.index(before[which])]
    assert is_whole(store)
    store.close()


def test_files_of_other_sizes_are_rebuilt(disk: FakeDisk) -> None:
    filled(disk).close()
    assert is_whole(indexed(disk, index_entries=ENTRIES + 1))


def test_other_files_of_the_directory_are_left_alone(disk: FakeDisk) -> None:
    filled(disk).close()
    disk.write(INDEX / "notes.txt", b"mine")
    assert is_whole(indexed(disk))
    assert disk.read(INDEX / "notes.txt") == b"mine"


def test_an_index_that_was_switched_off_for_a_while_is_caught_up(disk: FakeDisk) -> None:
    crash(filled(disk))
    from ..parts import store_of

    for _ in range(2):
        store = store_of(disk, segment_size=64 * 1024)
        for number in range(3):
            store.append(keyed(number, "meanwhile"))
        store.close()
    store = indexed(disk)
    assert is_whole(store)
    assert numbers(store, "meanwhile") == [0, 1, 2, 0, 1, 2]


def test_a_log_that_was_cut_takes_its_entries_along(disk: FakeDisk) -> None:
    filled(disk).close()
    end = 0
    store = indexed(disk)
    end = store.message_at("orders", 0, 10).physical_offset
    store.close()
    for path in [*disk.files]:
        if path.parent == ROOT / "commitlog":
            disk.files[path].buffer[end:] = bytes(len(disk.files[path].buffer) - end)
    disk.write(ROOT / "abort", b"1")
    store = indexed(disk, accept_log_end=end)
    found = numbers(store, "all")
    assert found == list(range(30))
    store.append(keyed(1000, "all"))
    assert numbers(store, "all", 1) == [1000]


def test_files_whose_messages_are_gone_are_deleted_and_the_last_stays(disk: FakeDisk) -> None:
    store = filled(disk)
    assert store.index is not None
    found = store.index._files
    assert found.expired(0) is None
    first = found.files[0]
    assert found.expired(first.header.end_offset) is None
    assert found.expired(first.header.end_offset + 1) is first
    while found.expired(1 << 60) is not None:
        pass
    assert len(found.files) == 1
