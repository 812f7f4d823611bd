"""The comparison of queues with the log: each fault is told once, where it lies."""

from __future__ import annotations

from pathlib import Path
from struct import pack_into

import pytest

from orbitmq.store import Draft
from orbitmq.store.inspection.check import StoreCheck
from orbitmq.store.inspection.issues import Severity
from orbitmq.store.queues.consume_queue import UNIT

from .parts import UNITS, fill, issues, make_store, open_store, stop_like_kill_9, wrong

FIRST = "consumequeue/orders/1/00000000000000000000"
SECOND = f"consumequeue/orders/1/{UNITS * 20:020}"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_store(tmp_path / "store")


def change(path: Path, number: int, entry: tuple[int, int, int]) -> None:
    content = bytearray(path.read_bytes())
    pack_into(UNIT.format, content, number * UNIT.size, *entry)
    path.write_bytes(content)


def entry(path: Path, number: int) -> tuple[int, int, int]:
    return UNIT.unpack_from(path.read_bytes(), number * UNIT.size)


@pytest.mark.parametrize("change_of", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1 << 40, 0, 0)])
def test_the_file_of_an_entry_that_is_a_little_wrong_is_named(root: Path, change_of: tuple[int, int, int]) -> None:
    before = entry(root / FIRST, 5)
    change(root / FIRST, 5, tuple(a + b for a, b in zip(before, change_of, strict=True)))  # type: ignore[arg-type]
    assert [(found.path, found.what) for found in wrong(root)] == [(FIRST, "differs from the log")]


@pytest.mark.parametrize("physical_offset", [0, 1 << 30])
def test_the_file_of_an_entry_behind_the_last_messages_is_named(root: Path, physical_offset: int) -> None:
    last = sorted((root / "consumequeue/orders/1").iterdir())[-1]
    count = len(last.read_bytes().rstrip(b"\0")) // UNIT.size + 1
    change(last, count, (physical_offset, 10, 0))
    assert [found.path for found in wrong(root)] == [str(last.relative_to(root))]


def test_a_file_of_another_size_is_named(root: Path) -> None:
    with (root / FIRST).open("ab") as file:
        file.write(b"x" * 20)
    assert [found.path for found in wrong(root)] == [FIRST]


def test_the_first_file_of_a_lost_queue_is_named(root: Path) -> None:
    names = sorted(path.name for path in (root / "consumequeue/orders/1").iterdir())
    for name in names:
        (root / "consumequeue/orders/1" / name).unlink()
    (root / "consumequeue/orders/1").rmdir()
    assert [issue.path for issue in wrong(root)] == [f"consumequeue/orders/1/{names[0]}"]


def test_a_queue_whose_old_files_were_cleaned_away_is_sound(root: Path) -> None:
    """As retention leaves it: the log's first files are gone, the queue's first file or not."""
    (root / "commitlog" / f"{0:020}").unlink()
    (root / "commitlog" / f"{4096:020}").unlink()
    (root / "ends").unlink()
    (root / "begin").write_text("8192\n")
    assert wrong(root) == []
    (root / FIRST).unlink()
    assert wrong(root) == []


def test_a_topic_that_was_deleted_is_no_fault(tmp_path: Path) -> None:
    root = tmp_path / "store"
    store = open_store(root)
    fill(store)
    store.delete_topic("orders")
    store.append(Draft("orders", 1, b"new"))
    store.close()
    assert issues(root) == []


@pytest.mark.parametrize("topics", [None, {"bills", "orders"}, {"bills"}])
def test_queues_that_are_gone_are_lost_unless_their_topic_is_gone(root: Path, topics: set[str] | None) -> None:
    """A Java broker takes no note of a deletion."""
    for path in sorted((root / "consumequeue/orders").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (root / "consumequeue/orders").rmdir()
    (root / "ends").unlink()
    found = [issue.severity for issue in StoreCheck(root, topics=topics).run() if "orders" in issue.what + issue.path]
    is_deleted = topics == {"bills"}
    assert set(found) == (set() if is_deleted else {Severity.WRONG})


def test_a_topic_that_was_made_again_without_a_note_has_a_sound_queue(tmp_path: Path) -> None:
    root = tmp_path / "store"
    store = open_store(root)
    fill(store)
    store.delete_topic("orders")
    for number in range(20):
        store.append(Draft("orders", 1, b"%d" % number))
    store.close()
    (root / "deleted").unlink()
    assert [issue.path for issue in wrong(root) if "/orders/1/" in issue.path] == []


def test_damage_in_the_log_is_not_told_of_the_queue_as_well(root: Path) -> None:
    at = entry(root / FIRST, 3)[0]
    content = bytearray((root / "commitlog" / f"{0:020}").read_bytes())
    content[at + 4] ^= 1
    (root / "commitlog" / f"{0:020}").write_bytes(content)
    (found,) = wrong(root)
    assert (found.path, found.offset) == (f"commitlog/{0:020}", at)


def test_messages_that_are_missing_are_passed_over_by_their_entries(tmp_path: Path) -> None:
    """Recovery lets the entries of lost messages lead to the next one."""
    root = tmp_path / "store"
    store = open_store(root)
    fill(store, 60)
    store.flush()
    stop_like_kill_9(store)
    content = bytearray((root / "commitlog" / f"{0:020}").read_bytes())
    at = entry(root / FIRST, 3)[0]
    content[at + 4] ^= 1
    (root / "commitlog" / f"{0:020}").write_bytes(content)
    change(root / FIRST, 3, entry(root / FIRST, 4))
    assert [issue.path for issue in wrong(root) if issue.path != "checkpoint"] == [f"commitlog/{0:020}"]
