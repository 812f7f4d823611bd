"""The check of index files and of the timers' files: nothing of sound ones, one line of the first that differs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from orbitmq.model.topic import TIMER_TOPIC
from orbitmq.store import Draft, Store, StoreConfig
from orbitmq.store.index.index_file import HEADER, IndexSizes
from orbitmq.store.inspection.check import Sizes, StoreCheck
from orbitmq.store.inspection.issues import Issue, Severity
from orbitmq.store.inspection.rebuild import rebuild_store
from orbitmq.store.local_disk import LocalDisk
from orbitmq.store.timers.checkpoint import TimerCheckpoint, format_timer_checkpoint_file
from orbitmq.store.timers.files import TimerFiles
from orbitmq.store.timers.units import UNIT_SIZE, Magic
from unit.store.inspection.parts import HOST, SEGMENT_SIZE, UNITS

FILE_SIZE = 5 * UNIT_SIZE
SIZES = Sizes(
    segment_size=SEGMENT_SIZE, queue_file_size=UNITS * 20, index=IndexSizes(8, 30), timer_log_file_size=FILE_SIZE
)
FIRST_MS = 1_800_000_000_000
COUNT = 10


def open_store(root: Path) -> Store:
    config = StoreConfig(
        path=root,
        segment_size=SEGMENT_SIZE,
        consume_queue_units=UNITS,
        has_index=True,
        index_slots=8,
        index_entries=30,
    )
    return Store.open(config, store_host=HOST)


def timer_files(root: Path) -> TimerFiles:
    return TimerFiles(LocalDisk(), root, precision_ms=1_000, log_file_size=FILE_SIZE)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store with four index files, and ten timers in three files of the timer log."""
    store, files = open_store(tmp_path), timer_files(tmp_path)
    files.recover(0, 0, lambda offset, size: None)
    for number in range(COUNT):
        due_ms = FIRST_MS + number * 1_000
        properties = b"REAL_TOPIC\x01t\x02TIMER_OUT_MS\x01%d\x02" % due_ms
        stored = store.append(Draft(TIMER_TOPIC, 0, b"%d" % number, properties))
        files.put(due_ms, FIRST_MS - 5_000, int(Magic.DEFAULT), (stored.physical_offset, stored.size, 7), 1)
        files.queue_offset = number + 1
    for number in range(50):
        store.append(Draft("orders", 0, b"x", f"UNIQ_KEY\x01U{number}\x02KEYS\x01k{number % 3}\x02".encode()))
    (tmp_path / "config").mkdir(exist_ok=True)
    files.write_checkpoint(files.next_checkpoint(FIRST_MS - 5_000, FIRST_MS - 5_000))
    files.close()
    store.close()
    return tmp_path


def check(root: Path, sizes: Sizes = SIZES) -> list[Issue]:
    return [issue for issue in StoreCheck(root, sizes).run() if issue.severity is Severity.WRONG]


def index_file(root: Path, number: int) -> Path:
    return sorted((root / "index").iterdir())[number]


def log_file(root: Path, number: int) -> Path:
    return root / "timerlog" / f"{number * FILE_SIZE:020}"


def rewrite(path: Path, at: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(content)


def cut(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])


def lead_ahead(root: Path) -> None:
    ahead = TimerCheckpoint(FIRST_MS - 5_000, 2 * FILE_SIZE + 2 * UNIT_SIZE, COUNT + 1, COUNT)
    (root / "config/timercheck").write_bytes(format_timer_checkpoint_file(ahead))


DIFFERS = "differs from the log"
DAMAGES: dict[str, tuple[Callable[[Path], object], Callable[[Path], Path], str]] = {
    "index cut": (lambda root: cut(index_file(root, 1), 600), lambda root: index_file(root, 1), DIFFERS),
    "header": (lambda root: rewrite(index_file(root, 2), 0, bytes(HEADER.size)), lambda root: index_file(root, 2), DIFFERS),
    "offset": (lambda root: rewrite(index_file(root, 3), 24, b"\x40"), lambda root: index_file(root, 3), DIFFERS),
    "wheel cut": (lambda root: cut(root / "timerwheel", 3200), lambda root: root / "timerwheel", DIFFERS),
    "timer file gone": (lambda root: log_file(root, 1).unlink(), lambda root: log_file(root, 1), DIFFERS),
    "last file gone": (lambda root: log_file(root, 2).unlink(), lambda root: log_file(root, 2), DIFFERS),
    "timer file cut": (lambda root: cut(log_file(root, 1), 100), lambda root: log_file(root, 1), DIFFERS),
    "checkpoint gone": (lambda root: (root / "config/timercheck").unlink(), lambda root: root / "config/timercheck", "is missing"),
    "checkpoint zeroed": (
        lambda root: (root / "config/timercheck").write_bytes(bytes(56)), lambda root: root / "config/timercheck", "cannot be used",
    ),
    "checkpoint cut": (lambda root: cut(root / "config/timercheck", 30), lambda root: root / "config/timercheck", "cannot be used"),
    "checkpoint ahead": (lead_ahead, lambda root: root / "config/timercheck", "it ends at 10"),
}  # fmt: skip


def test_nothing_is_wrong_with_sound_files(root: Path) -> None:
    assert len(list((root / "index").iterdir())) == 4
    assert list(StoreCheck(root, SIZES).run()) == []
    assert check(root, Sizes()) == []  # sizes need not be told


@pytest.mark.parametrize("kind", DAMAGES)
def test_each_damage_is_told_in_one_line_and_what_is_derived_is_sound_after_a_rebuild_and_a_start(
    root: Path, kind: str
) -> None:
    damage, path_of, what = DAMAGES[kind]
    name = str(path_of(root).relative_to(root))
    damage(root)
    (found,) = check(root)
    assert found.path == name
    assert what in found.what
    rebuild_store(root, SIZES)
    store, files = open_store(root), timer_files(root)
    files.recover(store.max_physical_offset, COUNT, lambda offset, size: None)
    if name.startswith("timerlog/"):
        assert (files.queue_offset, files.delivered_offset) == (0, COUNT)  # what was delivered is known as before
    files.close()
    store.close()
    # A start lowers a checkpoint that is ahead of its queue; the next save replaces others.
    is_left = name == "config/timercheck" and kind != "checkpoint ahead"
    assert [issue.path for issue in check(root)] == ([name] if is_left else [])


def test_a_rebuild_leaves_a_sound_timer_log_alone_and_has_the_rest_written_again(root: Path) -> None:
    timers = {path: path.read_bytes() for path in (root / "timerlog").iterdir()}
    index = [path.read_bytes() for path in sorted((root / "index").iterdir())]
    rebuild_store(root, SIZES)
    assert {path: path.read_bytes() for path in timers} == timers
    store, files = open_store(root), timer_files(root)
    files.recover(store.max_physical_offset, COUNT, lambda offset, size: None)
    assert files.pending_count == COUNT
    files.close()
    store.close()
    assert [path.read_bytes() for path in sorted((root / "index").iterdir())] == index
    assert check(root) == []


def test_after_a_crash_an_index_file_that_is_not_full_is_not_judged(root: Path) -> None:
    (root / "abort").write_text("1")
    (root / "index" / "29990101000000000").write_bytes(b"begun")
    rewrite(index_file(root, 3), 0, bytes(HEADER.size))
    assert check(root) == []


def test_what_is_not_checked_is_a_note(root: Path) -> None:
    lock = LocalDisk().lock(root / "lock")
    found = {issue.path: issue.severity for issue in StoreCheck(root, Sizes()).run()}
    lock.close()
    assert found == {"timerlog": Severity.NOTE, "index": Severity.NOTE}


def test_a_link_in_the_place_of_a_file_is_not_followed(root: Path) -> None:
    (root / "config/timercheck").unlink()
    (root / "config/timercheck").symlink_to("/etc/passwd")
    assert [found.path for found in check(root)] == ["config/timercheck"]
