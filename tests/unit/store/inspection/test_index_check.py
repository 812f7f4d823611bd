"""The check of index files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from orbitmq.model.message import Host
from orbitmq.store import Draft, Store, StoreConfig
from orbitmq.store.index.layout import HEADER, IndexSizes, format_note, parse_note
from orbitmq.store.inspection import check as module
from orbitmq.store.inspection.check import Sizes, StoreCheck
from orbitmq.store.inspection.issues import Issue, Severity
from orbitmq.store.inspection.rebuild import rebuild_store
from orbitmq.store.local_disk import LocalDisk

SIZES = Sizes(segment_size=64 * 1024, queue_file_size=2000, index=IndexSizes(8, 30))


def open_store(root: Path) -> Store:
    config = StoreConfig(
        path=root, segment_size=64 * 1024, consume_queue_units=100, has_index=True, index_slots=8, index_entries=30
    )
    return Store.open(config, store_host=Host("127.0.0.1", 1))


def append(store: Store, numbers: Iterable[int]) -> None:
    for number in numbers:
        store.append(Draft("orders", 0, b"x", f"UNIQ_KEY\x01U{number}\x02KEYS\x01k{number % 3}\x02".encode()))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    store = open_store(tmp_path)
    append(store, range(50))
    store.close()
    return tmp_path


def check(root: Path) -> list[Issue]:
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


@pytest.fixture
def killed(tmp_path: Path) -> Iterator[Path]:
    """A store as a kill leaves it: 26 messages are confirmed, slots are newer, more files were begun."""
    store = open_store(tmp_path)
    append(store, range(26))
    index = store.index
    assert index is not None
    index._catch_up()
    index._commits.commit((index._builder.position, index._writer(), index._files.files[-1].header), None)
    append(store, range(26, 28))
    index._catch_up()
    writer = index._writer()
    assert writer is not None
    writer._write_slots(None)
    append(store, range(28, 36))
    while index._builder.step():
        pass
    yield tmp_path
    store.close()


def test_a_killed_store_has_no_findings(killed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "is_running", lambda root: False)
    assert len(files(killed)) == 3
    assert [found for found in check(killed) if found.severity is Severity.WRONG] == []


@pytest.mark.parametrize("is_live", [False, True])
@pytest.mark.parametrize("which", range(2))
def test_slots_that_are_missing_after_a_kill_are_named(
    killed: Path, monkeypatch: pytest.MonkeyPatch, which: int, is_live: bool
) -> None:
    monkeypatch.setattr(module, "is_running", lambda root: is_live)
    path = files(killed)[which]
    content = bytearray(path.read_bytes())
    content[HEADER.size : HEADER.size + 32] = bytes(32)
    path.write_bytes(content)
    wrong = [found for found in check(killed) if found.severity is Severity.WRONG]
    assert [found.path for found in wrong] == [f"index/{path.name}"]
    assert "slots" in wrong[0].what


def test_a_confirmed_end_that_cannot_be_one_is_named(killed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "is_running", lambda root: False)
    note = parse_note((killed / "indexed").read_bytes())
    assert note is not None
    (killed / "indexed").write_bytes(format_note(note._replace(header=note.header._replace(next_number=1000))))
    (wrong,) = [found for found in check(killed) if found.severity is Severity.WRONG]
    assert "1000 entries" in wrong.what


def test_a_file_of_another_size_is_named(root: Path) -> None:
    path = files(root)[1]
    path.write_bytes(path.read_bytes()[:-1])
    assert f"index/{path.name}" in [found.path for found in check(root)]


def test_unnamed_sizes_are_no_fault(root: Path) -> None:
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
