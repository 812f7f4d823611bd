"""The check of a whole store: what is sound has no finding, what was damaged is named, and nothing else."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from orbitmq.store.inspection.check import StoreCheck
from orbitmq.store.inspection.issues import Severity
from orbitmq.store.local_disk import LocalDisk
from orbitmq.store.sync.checkpoint import format_checkpoint, parse_checkpoint

from .parts import files_of, issues, make_store, wrong

DAMAGES = ("removed", "emptied", "zeroed", "garbled")


def damage(path: Path, kind: str) -> None:
    content = path.read_bytes()
    size = len(content.rstrip(b"\0"))
    # Times of the checkpoint that are a little lower than they were cover less, and do no harm.
    start, stop = (0, size) if path.name == "checkpoint" else (size // 3, 2 * size // 3 + 1)
    if kind == "removed":
        path.unlink()
    elif kind == "emptied":
        path.write_bytes(b"")
    elif kind == "zeroed":
        path.write_bytes(content[:start] + bytes(stop - start) + content[stop:])
    else:
        path.write_bytes(content[:start] + Random(7).randbytes(stop - start) + content[stop:])


@pytest.mark.parametrize("is_orderly", [True, False])
def test_a_sound_store_has_no_finding(tmp_path: Path, is_orderly: bool) -> None:
    root = make_store(tmp_path / "store", is_orderly=is_orderly)
    assert [issue.path for issue in issues(root)] == ([] if is_orderly else ["abort"])
    assert len(files_of(root)) > 10


def test_entries_that_the_next_start_writes_again_need_not_be_there(tmp_path: Path) -> None:
    """Entries are in memory until they are synced; the checkpoint says which records are read again."""
    root = make_store(tmp_path / "store", is_orderly=False)
    path = root / "consumequeue" / "bills" / "0" / f"{16 * 20:020}"
    content = path.read_bytes()
    checkpoint = parse_checkpoint((root / "checkpoint").read_bytes())
    lowered = checkpoint._replace(entries_end=int.from_bytes(content[:8], "big"))
    (root / "checkpoint").write_bytes(format_checkpoint(lowered))
    path.write_bytes(bytes(len(content)))
    assert wrong(root) == []
    path.with_name(f"{0:020}").write_bytes(bytes(len(content)))
    assert [issue.path for issue in wrong(root)] == [f"consumequeue/bills/0/{0:020}"]


def test_entries_that_a_running_broker_has_in_memory_need_not_be_there(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", is_orderly=False)
    for path in (root / "consumequeue").rglob("0" * 20):
        path.write_bytes(bytes(len(path.read_bytes())))
    (root / "checkpoint").unlink()
    with closing(LocalDisk().lock(root / "lock")):
        assert wrong(root) == []


@pytest.mark.parametrize("is_live", [True, False])
def test_files_that_a_running_broker_deletes_meanwhile_are_not_missing(tmp_path: Path, is_live: bool) -> None:
    root = make_store(tmp_path / "store")
    lock = LocalDisk().lock(root / "lock") if is_live else None
    check = StoreCheck(root)
    (root / "commitlog" / f"{0:020}").unlink()
    (root / "begin").write_text("4096\n")
    found = [issue.path for issue in check.run() if issue.severity is Severity.WRONG]
    assert found == ([] if is_live else [f"commitlog/{0:020}"])
    if lock is not None:
        lock.close()


@pytest.mark.parametrize("is_orderly", [True, False])
@pytest.mark.parametrize("kind", DAMAGES)
def test_each_file_that_is_damaged_is_named_and_no_other(tmp_path: Path, kind: str, is_orderly: bool) -> None:
    names = files_of(make_store(tmp_path / "sound", is_orderly=is_orderly))
    names = [name for name in names if name not in ("abort", "ends", "lock")]  # a start and a stop write them again
    if kind == "removed":  # as in a store of Java's
        names = [name for name in names if name != "begin"]
    unlike = {}
    for number, name in enumerate(names):
        root = make_store(tmp_path / str(number), is_orderly=is_orderly)
        damage(root / name, kind)
        named = {issue.path for issue in issues(root)} - {"abort"}
        if named != {name}:
            unlike[name] = named
    assert unlike == {}
