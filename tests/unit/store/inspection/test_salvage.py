"""The way back for messages that recovery has set aside: all of them, once, and nothing is destroyed."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from orbitmq.errors import InvalidArgument, StoreError
from orbitmq.store import Draft, Store
from orbitmq.store.inspection.salvage import plan_salvage, salvage
from orbitmq.store.inspection.salvage_rules import Classification
from orbitmq.store.inspection.small_files import check_quarantine, quarantined
from orbitmq.store.local_disk import LocalDisk
from orbitmq.wire.messages.properties import parse_properties
from orbitmq.wire.messages.record import format_record, iter_records
from unit.store.inspection.parts import config_of, files_of, open_store, stop_like_kill_9, wrong

COUNT = 100


def body(number: int) -> bytes:
    return b"number %03d" % number


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store whose record 20 was damaged before a start: what lay behind it was set aside."""
    root = tmp_path / "store"
    store = open_store(root)
    places = [
        store.append(Draft("orders", number % 2, body(number), b"KEYS\x01k\x02")).physical_offset
        for number in range(COUNT)
    ]
    stop_like_kill_9(store)
    path = root / "commitlog" / f"{places[20] // 4096 * 4096:020}"
    content = bytearray(path.read_bytes())
    content[places[20] % 4096 + 4] ^= 0xFF
    path.write_bytes(content)
    store = open_store(root)
    assert store.max_offset("orders", 0) == 10
    store.append(Draft("orders", 0, b"after"))
    store.close()
    return root


def stored(root: Path, queue_id: int = 0) -> list[bytes]:
    store = open_store(root)
    try:
        return bodies(store, queue_id)
    finally:
        store.close()


def bodies(store: Store, queue_id: int) -> list[bytes]:
    found: list[bytes] = []
    while len(found) < store.max_offset("orders", queue_id):
        read = store.read("orders", queue_id, len(found), 1000, 1 << 20)
        found += [bytes(record.body) for record in iter_records(read.body)]
    return found


def test_every_whole_record_comes_behind_what_was_stored_since_in_its_old_order(root: Path) -> None:
    done = salvage(root, config_of(root))
    assert {(row.topic, row.classification) for row in done} == {("orders", Classification.BRING_BACK)}
    assert sum(row.record_count for row in done) == COUNT - 21
    assert stored(root) == [body(n) for n in range(0, 20, 2)] + [b"after"] + [body(n) for n in range(22, COUNT, 2)]
    assert stored(root, 1) == [body(n) for n in range(1, COUNT, 2)]
    assert wrong(root) == []


def test_files_are_kept_when_they_are_done_and_are_not_brought_back_again(root: Path) -> None:
    before = {path.name: path.read_bytes() for path in quarantined(root)}
    assert len(before) >= 2
    salvage(root, config_of(root))
    assert quarantined(root) == []
    kept = {path.name: path.read_bytes() for path in (root / "quarantine" / "salvaged").iterdir()}
    assert {name: content for name, content in kept.items() if not name.endswith(".json")} == before
    assert len(kept) == 2 * len(before)
    assert salvage(root, config_of(root)) == []
    assert not (root / "quarantine" / "salvage").exists()


def test_a_message_carries_its_old_place(root: Path) -> None:
    (first, *_) = quarantined(root)
    salvage(root, config_of(root))
    store = open_store(root)
    record = store.message_at("orders", 0, 11)
    assert record is not None
    properties = parse_properties(record.properties)
    assert properties["KEYS"] == "k"
    assert properties["SALVAGED_FROM"].startswith(f"{first.name}:")
    store.close()


def test_a_plan_changes_nothing(root: Path) -> None:
    before = {name: (root / name).read_bytes() for name in files_of(root)}
    plan = list(plan_salvage(root, config_of(root)))
    assert [bytes(record.body) for _, record, _ in plan] == [body(number) for number in range(21, COUNT)]
    assert {classification for _, _, classification in plan} == {Classification.BRING_BACK}
    assert {name: (root / name).read_bytes() for name in files_of(root)} == before


class _Failing(LocalDisk):
    """A disk that refuses to move a file, the n-th time."""

    def __init__(self, left: int) -> None:
        super().__init__()
        self._left = left

    def move(self, path: Path, target: Path) -> None:
        if target.parent.name == "salvaged":
            self._left -= 1
            if self._left < 0:
                raise OSError(errno.EIO, "Input/output error")
        super().move(path, target)


@pytest.mark.parametrize("left", range(4))
def test_a_salvage_that_was_interrupted_stores_nothing_twice(root: Path, left: int) -> None:
    with pytest.raises(OSError, match="Input/output"):
        salvage(root, config_of(root), disk=_Failing(left))
    assert (root / "quarantine" / "salvage").exists()
    salvage(root, config_of(root))
    assert stored(root) == [body(n) for n in range(0, 20, 2)] + [b"after"] + [body(n) for n in range(22, COUNT, 2)]
    assert stored(root, 1) == [body(n) for n in range(1, COUNT, 2)]
    assert quarantined(root) == []


class _Interrupted(Exception):
    """A kill in the middle."""


@pytest.mark.parametrize("number", [1, 10, COUNT - 21])
def test_a_salvage_that_was_killed_stores_nothing_twice(
    root: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    append, appended = Store.append, list[Draft]()

    def interrupt(store: Store, draft: Draft) -> None:
        append(store, draft)
        appended.append(draft)
        if len(appended) == number:
            raise _Interrupted

    with monkeypatch.context() as patched:
        patched.setattr(Store, "append", interrupt)
        with pytest.raises(_Interrupted):
            salvage(root, config_of(root))
    open_store(root).close()  # a broker may run in between
    salvage(root, config_of(root))
    assert sorted(stored(root) + stored(root, 1)) == sorted([body(n) for n in range(COUNT) if n != 20] + [b"after"])


def test_a_file_whose_sync_failed_stays(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = quarantined(root)
    monkeypatch.setattr(Store, "flush", lambda self: None)
    monkeypatch.setattr(Store, "durable_offset", property(lambda self: 0))
    with pytest.raises(StoreError, match="did not take what was brought back"):
        salvage(root, config_of(root))
    assert quarantined(root) == before


def test_the_same_records_in_two_files_are_brought_back_once(root: Path) -> None:
    (first, *_) = quarantined(root)
    for ending in ("", ".json"):
        source = first.with_name(first.name + ending)
        first.with_name(first.name[:-1] + "2" + ending).write_bytes(source.read_bytes())
    done = salvage(root, config_of(root))
    assert Classification.TWICE in {row.classification for row in done}
    assert sum(row.record_count for row in done if row.classification is Classification.BRING_BACK) == COUNT - 21


def test_what_the_log_has_still_is_not_brought_back(tmp_path: Path) -> None:
    """As after a start that ended between the copy and the cut."""
    root = tmp_path / "store"
    store = open_store(root)
    for number in range(5):
        store.append(Draft("orders", 0, body(number)))
    store.close()
    content = (root / "commitlog" / f"{0:020}").read_bytes().rstrip(b"\0")
    (root / "quarantine").mkdir()
    (root / "quarantine" / f"commitlog-{0:020}-1").write_bytes(content)
    assert [(row.classification, row.record_count) for row in salvage(root, config_of(root))] == [
        (Classification.IN_LOG, 5)
    ]
    assert stored(root) == [body(number) for number in range(5)]


def test_a_topic_that_was_deleted_or_is_not_there_is_not_made_again(root: Path) -> None:
    before = quarantined(root)
    done = salvage(root, config_of(root), topics={"bills"})
    assert {row.classification for row in done} == {Classification.NO_TOPIC}
    assert quarantined(root) == before
    store = open_store(root)
    store.delete_topic("orders")
    store.close()
    (root / "deleted").write_text(f"{1 << 40} orders\n")
    assert {classification for _, _, classification in plan_salvage(root, config_of(root))} == {Classification.DELETED}


def test_a_record_that_fits_no_more_keeps_its_file(root: Path) -> None:
    found = format_record(
        topic="orders", body=b"", properties=b"a\x01" + b"x" * 32_700 + b"\x02", physical_offset=1 << 30
    )
    path = root / "quarantine" / f"commitlog-{1 << 30:020}-1"
    path.write_bytes(found)
    done = {row.path: row.classification for row in salvage(root, config_of(root))}
    assert done[f"quarantine/{path.name}"] is Classification.DOES_NOT_FIT
    assert quarantined(root) == [path]


def test_what_was_moved_before_is_not_written_over(root: Path) -> None:
    (first, *_) = quarantined(root)
    kept = root / "quarantine" / "salvaged" / first.name
    kept.parent.mkdir()
    kept.write_bytes(b"from another time")
    salvage(root, config_of(root))
    assert kept.read_bytes() == b"from another time"
    assert (kept.parent / f"{first.name}-2").exists()
    assert json.loads((kept.parent / f"{first.name}-2.json").read_bytes())["log"] == "commitlog"


def test_a_store_that_a_broker_holds_is_left_alone(root: Path) -> None:
    store = open_store(root)
    with pytest.raises(StoreError, match="in use by another broker"):
        salvage(root, config_of(root))
    store.close()


def test_what_is_no_store_is_not_made_one(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument):
        salvage(tmp_path, config_of(tmp_path))
    with pytest.raises(InvalidArgument):
        list(plan_salvage(tmp_path, config_of(tmp_path)))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["directory", "pipe", "dangling link"])
def test_what_is_no_file_in_the_quarantine_stops_nothing(root: Path, kind: str) -> None:
    odd = root / "quarantine" / f"commitlog-{0:020}-9"
    if kind == "directory":
        odd.mkdir()
    elif kind == "pipe":
        os.mkfifo(odd)
    else:
        odd.symlink_to(root / "nowhere")
    assert any(issue.path.endswith(odd.name) and "not a regular file" in issue.what for issue in check_quarantine(root))
    assert [found.record_count for found in salvage(root, config_of(root))]
    assert odd.is_symlink() or odd.exists()
    assert body(COUNT - 2) in stored(root)
