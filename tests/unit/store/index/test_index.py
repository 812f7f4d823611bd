"""The index on the event loop: turns, waiting queries, commits, orderly stops."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from inspect import signature
from pathlib import Path

import pytest

from orbitmq.admin.client import AdminClient
from orbitmq.errors import StoreBusy, StoreError, StoreUnavailable
from orbitmq.model.message import Host
from orbitmq.store import FlushMode, Store, StoreConfig
from orbitmq.store.index import index as module
from orbitmq.store.index.builder import SLICE_SIZE
from orbitmq.store.index.search import IndexQuery, IndexQueryResult
from orbitmq.store.sync.checkpoint import parse_checkpoint
from orbitmq.testing import FakeClock
from orbitmq.testing.fake_disk import FakeDisk
from orbitmq.wire.messages.record import iter_records
from waiting import until

from ..parts import ROOT
from .parts import ALWAYS, ENTRIES, INDEX, SLOTS, indexed, keyed, numbers


@asynccontextmanager
async def attached(disk: FakeDisk | None = None, **changes: object) -> AsyncIterator[tuple[Store, FakeDisk]]:
    """Attach a store to the running loop, and close it afterwards."""
    disk = disk or FakeDisk()
    store = indexed(disk, FakeClock(1000), **changes)
    store.attach(asyncio.get_running_loop())
    try:
        yield store, disk
    finally:
        store.close()


async def ask_later(store: Store, key: str, count_max: int = 64) -> IndexQueryResult | StoreError:
    answer: asyncio.Future[IndexQueryResult | StoreError] = asyncio.get_running_loop().create_future()
    store.query(IndexQuery("orders", key, count_max, *ALWAYS), answer.set_result)
    return await answer


def numbers_of(found: IndexQueryResult | StoreError) -> list[int]:
    assert isinstance(found, IndexQueryResult), found
    return [int(bytes(record.body)) for record in iter_records(found.body)]


async def test_the_index_is_built_without_being_asked() -> None:
    async with attached() as (store, _disk):
        for number in range(50):
            store.append(keyed(number, "k"))
        index = store.index
        assert index is not None
        assert index.behind > 0
        await until(lambda: index.behind == 0)
        assert numbers(store, "k") == list(range(50))


async def test_a_query_right_behind_a_message_finds_it_however_much_there_is_before() -> None:
    async with attached(index_entries=10_000, segment_size=1 << 20) as (store, _disk):
        for number in range(3000):
            store.append(keyed(number))
        found = await ask_later(store, "U2999")
        assert isinstance(found, IndexQueryResult)
        assert found.message_count == 1


async def test_a_busy_loop_takes_no_turn_for_every_few_messages() -> None:
    async with attached(index_entries=10_000, segment_size=1 << 20) as (store, _disk):
        index = store.index
        assert index is not None
        size = store.append(keyed(0)).size
        await until(lambda: index.behind == 0)
        assert index._timer is not None
        index._timer.cancel()
        for number in range(2 * SLICE_SIZE // size):
            store.append(keyed(number))
        index._take_turn()
        turn_count = 0
        while index._turn is not None:
            store.append(keyed(0))
            turn_count += 1
            assert turn_count < 100
            await asyncio.sleep(0)
        assert 0 < index.behind < SLICE_SIZE
        assert numbers(store, "U0", 1) == [0]


async def test_readers_find_with_sync_flush_what_is_on_the_disk() -> None:
    async with attached(flush=FlushMode.SYNC) as (store, _disk):
        end = store.append(keyed(1, "k")).end
        synced: asyncio.Future[bool | None] = asyncio.get_running_loop().create_future()
        assert numbers(store, "k") == []
        assert not store.wait_durable(end, synced.set_result)
        assert await synced
        assert numbers(store, "k") == [1]


async def test_full_files_get_to_the_disk_and_the_checkpoint_tells_it() -> None:
    async with attached() as (store, disk):
        for number in range(100):
            store.append(keyed(number))
        index = store.index
        assert index is not None
        await until(lambda: index.file_count > 4 and not index._builder.unsealed)
    assert parse_checkpoint(disk.read(ROOT / "checkpoint")).index_ms == 1000
    assert numbers(indexed(disk), "U99") == [99]


async def test_a_search_among_many_entries_of_other_keys_is_answered_in_turns() -> None:
    async with attached(index_slots=1, index_entries=10_000, segment_size=1 << 20) as (store, _disk):
        for number in range(3000):
            store.append(keyed(number))
        assert isinstance(await ask_later(store, "U2999"), IndexQueryResult)
        answers: list[IndexQueryResult | StoreError] = []
        store.query(IndexQuery("orders", "nothing", 64, *ALWAYS), answers.append)
        assert answers == []
        await until(lambda: answers != [])
        assert answers == [IndexQueryResult()]


async def test_a_query_is_refused_when_the_index_does_not_catch_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_QUERY_TIMEOUT_S", 0.0)

    async with attached() as (store, disk):
        store.append(keyed(1))
        disk.failures["open"] = OSError(errno.EMFILE, "no descriptors")
        refused = await ask_later(store, "U1")
        assert isinstance(refused, StoreUnavailable)
        assert "no descriptors" in str(refused)
        assert [issue.kind for issue in store.issues] == ["index"]
        disk.failures.clear()
        assert numbers(store, "U1") == [1]
        await until(lambda: store.issues == [])


async def test_only_so_many_queries_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_QUERIES_MAX", 2)
    answers: list[IndexQueryResult | StoreError] = []

    async with attached() as (store, disk):
        store.append(keyed(1))
        disk.failures["open"] = OSError(errno.EMFILE, "no descriptors")
        for _ in range(3):
            store.query(IndexQuery("orders", "U1", 64, *ALWAYS), answers.append)
        (refused,) = answers
        assert isinstance(refused, StoreBusy)
        disk.failures.clear()
    assert [type(answer) for answer in answers] == [StoreBusy, StoreUnavailable, StoreUnavailable]


async def test_files_go_with_the_messages_they_lead_to() -> None:
    async with attached(segment_size=2048) as (store, disk):
        for number in range(100):
            store.append(keyed(number, "k"))
        index = store.index
        assert index is not None
        await until(lambda: index.behind == 0 and not index._builder.unsealed)
        before = index.file_count
        while len(store._commit_log.log.segments) > 2:
            segment = store._commit_log.log.detach_first()
            segment.close()
            disk.remove(segment.path)
        await until(lambda: index.file_count < before // 2)
        names = [path.name for path in list(disk.files) if path.parent == INDEX]
        await until(lambda: len([path for path in list(disk.files) if path.parent == INDEX]) == index.file_count)
        assert names
        assert numbers(store, "k")[-1] == 99


def test_a_store_without_an_index_says_so() -> None:
    from ..parts import store_of

    answers: list[IndexQueryResult | StoreError] = []
    store_of().query(IndexQuery("orders", "k", 1, *ALWAYS), answers.append)
    assert isinstance(answers[0], StoreUnavailable)
    assert "messageIndexEnable" in str(answers[0])


def damaged_disk() -> FakeDisk:
    """Return the disk of a stopped store whose second index file has lost its entries."""
    disk = FakeDisk()
    store = indexed(disk)
    for number in range(50):
        store.append(keyed(number, "k"))
    store.close()
    path = sorted(path for path in list(disk.files) if path.parent == INDEX)[1]
    del disk.files[path].buffer[40 + 4 * SLOTS :]
    disk.files[path].buffer += bytes(20 * ENTRIES)
    return disk


async def test_what_a_search_finds_damaged_is_rebuilt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_QUERY_TIMEOUT_S", 1e9)

    async with attached(damaged_disk()) as (store, disk):
        assert numbers_of(await ask_later(store, "k", 20)) == list(range(30, 50))  # it ends before the damage
        first, second = await asyncio.gather(ask_later(store, "k"), ask_later(store, "k"))
        assert isinstance(first, StoreBusy)
        assert "rebuilt from the log" in str(first)
        assert numbers_of(second) == numbers_of(await ask_later(store, "k")) == list(range(50))
    assert numbers(indexed(disk), "k") == list(range(50))


async def test_nothing_is_found_in_part_while_a_damaged_file_cannot_be_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    async with attached(damaged_disk()) as (store, disk):
        disk.failures["remove"] = OSError(errno.EIO, "broken")
        assert isinstance(await ask_later(store, "k"), StoreBusy)
        monkeypatch.setattr(module, "_QUERY_TIMEOUT_S", 0.0)
        assert store.index is not None
        index = store.index
        await until(lambda: index.failure is not None)
        refused = await ask_later(store, "k")
        assert type(refused) is StoreUnavailable
        assert "does not go on" in str(refused)
        del disk.failures["remove"]
        monkeypatch.setattr(module, "_QUERY_TIMEOUT_S", 1e9)
        assert numbers_of(await ask_later(store, "k")) == list(range(50))


def test_queries_are_answered_before_clients_give_up() -> None:
    assert signature(AdminClient).parameters["timeout_ms"].default > module._QUERY_TIMEOUT_S * 1000 + 500


async def test_a_store_that_stops_with_a_damaged_file_covers_nothing() -> None:
    async with attached(damaged_disk()) as (store, disk):
        disk.failures["remove"] = OSError(errno.EIO, "broken")
        assert isinstance(await ask_later(store, "k"), StoreBusy)
    disk.failures.clear()
    store = indexed(disk)
    with pytest.raises(StoreBusy):
        numbers(store, "k")
    assert numbers(store, "k") == list(range(50))


def test_a_file_that_is_cut_is_rebuilt(tmp_path: Path) -> None:
    config = StoreConfig(path=tmp_path, segment_size=65_536, has_index=True, index_slots=8, index_entries=20)
    store = Store.open(config, store_host=Host("127.0.0.1", 1))
    for at in range(15):
        store.append(keyed(at, "k"))
    assert numbers(store, "k") == list(range(15))
    os.truncate(min((tmp_path / "index").iterdir()), 50)
    with pytest.raises(StoreBusy, match="was cut short"):
        numbers(store, "k")
    assert numbers(store, "k") == list(range(15))
    store.close()
