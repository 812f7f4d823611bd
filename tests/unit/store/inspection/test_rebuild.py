"""The rebuilding of a stopped broker's queues and checkpoint."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest

from orbitmq.errors import InvalidArgument, StoreError
from orbitmq.model.delay_levels import parse_delay_levels
from orbitmq.model.topic import SCHEDULE_TOPIC
from orbitmq.store import Draft
from orbitmq.store.inspection.check import Sizes
from orbitmq.store.inspection.rebuild import rebuild_store
from orbitmq.store.local_disk import LocalDisk
from orbitmq.store.sync.checkpoint import parse_checkpoint
from unit.store.inspection.parts import SEGMENT_SIZE, UNITS, issues, make_store, open_store, stop_like_kill_9, wrong

SIZES = Sizes(segment_size=SEGMENT_SIZE, queue_file_size=UNITS * 20)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_store(tmp_path / "store")


def queues_of(root: Path) -> dict[str, bytes]:
    files = (root / "consumequeue").rglob("0*")
    return {str(path.relative_to(root)): path.read_bytes() for path in files if path.is_file()}


@pytest.mark.parametrize("damage", ["gone", "one file gone", "empty", "garbled", "too large", "none"])
def test_queues_are_written_as_they_were(root: Path, damage: str) -> None:
    before = queues_of(root)
    path = sorted((root / "consumequeue/orders/1").iterdir())[0]
    if damage == "gone":
        shutil.rmtree(root / "consumequeue")
    elif damage == "one file gone":
        path.unlink()
    elif damage != "none":
        path.write_bytes({"empty": b"", "garbled": b"\xee" * 320, "too large": bytes(6400)}[damage])
    done = rebuild_store(root, SIZES)
    assert queues_of(root) == before
    assert (done.queue_count, done.record_count, done.unplaced_count, done.damage_count) == (3, 120, 0, 0)
    assert issues(root) == []


def test_sizes_need_not_be_told(root: Path) -> None:
    before = queues_of(root)
    (root / "consumequeue/orders/1" / f"{0:020}").unlink()
    rebuild_store(root, Sizes())
    assert queues_of(root) == before


@pytest.mark.parametrize("content", [None, b"", b"\xee" * 4096])
def test_the_checkpoint_is_written_as_it_was(root: Path, content: bytes | None) -> None:
    before = (root / "checkpoint").read_bytes()
    (root / "checkpoint").unlink()
    if content is not None:
        (root / "checkpoint").write_bytes(content)
    rebuild_store(root, SIZES)
    assert (root / "checkpoint").read_bytes() == before


def test_only_the_queues_of_some_topics_are_written_when_they_are_named(root: Path) -> None:
    for topic in ("orders", "bills"):
        shutil.rmtree(root / "consumequeue" / topic)
    checkpoint = (root / "checkpoint").read_bytes()
    done = rebuild_store(root, SIZES, topics=["bills"])
    assert (done.queue_count, done.has_checkpoint) == (1, False)
    assert {name.split("/")[1] for name in queues_of(root)} == {"bills"}
    assert (root / "checkpoint").read_bytes() == checkpoint


def test_a_deleted_topic_is_not_brought_back(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store")
    store = open_store(root)
    store.delete_topic("orders")
    store.close()
    rebuild_store(root, SIZES)
    assert {name.split("/")[1] for name in queues_of(root)} == {"bills"}
    assert issues(root) == []


def test_damage_in_the_log_is_passed_over_and_the_broker_starts_with_what_is_behind_it(tmp_path: Path) -> None:
    """With all queues and a record lost, a start alone would refuse: it reads from the beginning, up to the damage."""
    root = make_store(tmp_path / "store", is_orderly=False)
    path = root / "commitlog" / f"{0:020}"
    content = bytearray(path.read_bytes())
    content[1000:1200] = b"\xee" * 200
    path.write_bytes(content)
    shutil.rmtree(root / "consumequeue")
    with pytest.raises(StoreError, match="bytes behind that were on the disk"):
        open_store(root)
    done = rebuild_store(root, SIZES)
    assert done.damage_count == 1
    assert {issue.path for issue in wrong(root)} == {f"commitlog/{0:020}"}
    store = open_store(root)
    assert store.max_offset("orders", 1) == 60
    assert store.recovery_report.set_aside == []
    store.close()


class _Full(LocalDisk):
    """A disk that takes so many more syncs of queues."""

    left = 1

    def open(self, path: Path, size: int, *, is_one_of_many: bool = False):
        if is_one_of_many and path.parent.name.isdecimal():
            self.left -= 1
            if self.left < 0:
                raise OSError(errno.ENOSPC, "No space left on device")
        return super().open(path, size, is_one_of_many=is_one_of_many)


@pytest.mark.parametrize("again", ["rebuild", "start"])
@pytest.mark.parametrize("left", [0, 1, 2, 3, 5])
def test_a_rebuild_that_was_interrupted_begins_again(tmp_path: Path, left: int, again: str) -> None:
    root = make_store(tmp_path / "store", is_orderly=False)
    before = queues_of(root)
    disk = _Full()
    disk.left = left
    with pytest.raises(OSError, match="No space"):
        rebuild_store(root, SIZES, disk=disk)
    assert "rebuild" in {issue.path for issue in wrong(root)}
    if again == "rebuild":
        rebuild_store(root, SIZES, topics=["nothing"])
    else:
        stop_like_kill_9(open_store(root))
    assert queues_of(root) == before
    assert [issue.path for issue in wrong(root)] == []


def test_a_store_that_a_broker_holds_is_left_alone(root: Path) -> None:
    before = queues_of(root)
    store = open_store(root)
    with pytest.raises(StoreError, match="in use by another broker"):
        rebuild_store(root, SIZES)
    store.close()
    assert queues_of(root) == before


def test_what_is_no_store_is_not_made_one(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument):
        rebuild_store(tmp_path, SIZES)
    assert list(tmp_path.iterdir()) == []


def test_a_log_with_a_hole_between_its_files_is_refused(root: Path) -> None:
    before = queues_of(root)
    (root / "commitlog" / f"{SEGMENT_SIZE:020}").unlink()
    with pytest.raises(StoreError, match=f"the file of offset {SEGMENT_SIZE} is missing"):
        rebuild_store(root, SIZES)
    assert queues_of(root) == before


def test_the_checkpoint_covers_what_is_on_the_disk(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", is_orderly=False)
    (root / "checkpoint").unlink()
    rebuild_store(root, SIZES)
    found = parse_checkpoint((root / "checkpoint").read_bytes())
    store = open_store(root)
    assert found.durable_offset == store.max_physical_offset
    stop_like_kill_9(store)


def test_delayed_messages_are_due_by_the_levels_that_are_told(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.append(Draft(SCHEDULE_TOPIC, 1, b"later", b"DELAY\x012\x02"))
    store.append(Draft("orders", 0, b"the last one, which a start reads again"))
    record = store.message_at(SCHEDULE_TOPIC, 1, 0)
    assert record is not None
    store.close()
    assert rebuild_store(tmp_path, SIZES, delay_levels=parse_delay_levels("1s 1d")).queue_count == 2
    store = open_store(tmp_path)
    assert store.queue_entries(SCHEDULE_TOPIC, 1, 0, 1) == [(0, record.size, record.stored_at_ms + 86_400_000)]
    store.close()
