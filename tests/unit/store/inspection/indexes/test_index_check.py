"""The check of index files."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.model.message import Host
from orbitmq.store import Draft, Store, StoreConfig
from orbitmq.store.disk import LocalDisk
from orbitmq.store.index.layout import HEADER, IndexSizes
from orbitmq.store.inspection.check import Sizes, StoreCheck
from orbitmq.store.inspection.findings import Finding, Severity
from orbitmq.store.repair.rebuild import rebuild_store

SIZES = Sizes(segment_size=64 * 1024, queue_file_size=2000, index=IndexSizes(8, 30))


def open_store(root: Path) -> Store:
    config = StoreConfig(
        path=root, segment_size=64 * 1024, consume_queue_units=100, has_index=True, index_slots=8, index_entries=30
    )
    return Store.open(config, store_host=Host("127.0.0.1", 1))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    store = open_store(tmp_path)
    for number in range(50):
        store.append(Draft("orders", 0, b"x", f"UNIQ_KEY\x01U{number}\x02KEYS\x01k{number % 3}\x02".encode()))
    store.close()
    return tmp_path


def check(root: Path) -> list[Finding]:
    return list(StoreCheck(root, SIZES).run())


def files(root: Path) -> list[Path]:
    return sorted((root / "index").iterdir())


def test_a_sound_store_has_no_findings(root: Path) -> None:
    assert len(files(root)) == 4
    assert check(root) == []


@pytest.mark.parametrize("at", [36, 40, 40 + 32 + 20, 40 + 32 + 20 * 7 + 8, 40 + 32 + 20 * 9 + 16])
@pytest.mark.parametrize("which", range(4))
def test_damage_is_found_and_named(root: Path, which: int, at: int) -> None:
    path = files(root)[which]
    content = bytearray(path.read_bytes())
    content[at : at + 4] = b"\x00\x00\x01\x05"
    path.write_bytes(content)
    wrong = [found for found in check(root) if found.severity is Severity.WRONG]
    assert [found.path for found in wrong] == [f"index/{path.name}"]


def test_a_file_of_another_size_is_named(root: Path) -> None:
    path = files(root)[1]
    path.write_bytes(path.read_bytes()[:-1])
    assert f"index/{path.name}" in [found.path for found in check(root)]


def test_sizes_that_nobody_has_named_are_no_fault(root: Path) -> None:
    sizes = Sizes(segment_size=64 * 1024, queue_file_size=2000)
    found = {one.path: one.severity for one in StoreCheck(root, sizes).run()}
    assert found == {f"index/{path.name}": Severity.NOTE for path in files(root)} | {"index": Severity.NOTE}


def test_keys_without_entries_are_noted_and_strangers_too(root: Path) -> None:
    last = files(root)[-1]
    last.unlink()
    (root / "index" / "notes").write_bytes(b"")
    found = {(one.path, one.severity) for one in check(root)}
    assert found == {("index", Severity.NOTE), ("index/notes", Severity.NOTE)}


def test_a_rebuilt_store_is_indexed_again_by_its_next_start(root: Path) -> None:
    before = [path.read_bytes() for path in files(root)]
    content = bytearray(files(root)[0].read_bytes())
    HEADER.pack_into(content, 0, *[0] * 6)
    files(root)[0].write_bytes(content)
    rebuild_store(root, SIZES, disk=LocalDisk())
    assert not (root / "index").exists()
    open_store(root).close()
    assert [path.read_bytes() for path in files(root)] == before
    assert check(root) == []
