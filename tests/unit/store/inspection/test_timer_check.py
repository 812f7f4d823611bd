"""The check of the timers' files: it says nothing of sound ones, and one line of each that is damaged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orbitmq.model.topic import TIMER_TOPIC
from orbitmq.store import Draft
from orbitmq.store.inspection.check import Sizes, StoreCheck
from orbitmq.store.inspection.issues import Issue, Severity
from orbitmq.store.inspection.layout import log_files
from orbitmq.store.inspection.rebuild import rebuild_store
from orbitmq.store.inspection.timer_check import UnitFiles
from orbitmq.store.local_disk import LocalDisk
from orbitmq.store.timers.checkpoint import TimerCheckpoint, format_timer_checkpoint_file
from orbitmq.store.timers.files import TimerFiles
from orbitmq.store.timers.log import TimerLog
from orbitmq.store.timers.units import UNIT_SIZE, Magic
from orbitmq.store.timers.wheel import SLOT_LAYOUT, SLOT_SIZE
from unit.store.inspection.parts import SEGMENT_SIZE, UNITS, open_store

PRECISION_MS = 1_000
FILE_SIZE = 5 * UNIT_SIZE
SIZES = Sizes(
    segment_size=SEGMENT_SIZE,
    queue_file_size=UNITS * 20,
    timer_log_file_size=FILE_SIZE,
    timer_precision_ms=PRECISION_MS,
)
FIRST_MS = 1_800_000_000_000
COUNT = 10


def timer_files(root: Path) -> TimerFiles:
    return TimerFiles(LocalDisk(), root, precision_ms=PRECISION_MS, log_file_size=FILE_SIZE)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store with ten timers in three files of the log: one rolled, one that takes another back, two of one slot."""
    store, files = open_store(tmp_path), timer_files(tmp_path)
    files.recover(0, lambda offset, size: None)
    for number in range(COUNT):
        due_ms = FIRST_MS + number // 2 * 1_000 + number
        magic = {3: Magic.ROLL, 4: Magic.DELETE}.get(number, Magic.DEFAULT)
        properties = b"REAL_TOPIC\x01t\x02TIMER_OUT_MS\x01%d\x02" % (due_ms + 500 * (magic == Magic.ROLL))
        stored = store.append(Draft(TIMER_TOPIC, 0, b"%d" % number, properties))
        files.put(
            due_ms, FIRST_MS - 5_000, int(magic), (stored.physical_offset, stored.size, 7), -1 if number == 4 else 1
        )
        files.queue_offset = number + 1
    store.append(Draft("orders", 0, b"the last one"))
    (tmp_path / "config").mkdir(exist_ok=True)
    files.write_checkpoint(files.next_checkpoint(FIRST_MS - 5_000, FIRST_MS - 5_000))
    files.close()
    store.close()
    return tmp_path


def check(root: Path, sizes: Sizes = SIZES) -> list[Issue]:
    return [issue for issue in StoreCheck(root, sizes).run() if issue.severity is Severity.WRONG]


def rewrite(path: Path, at: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(content)


def log_file(root: Path, number: int) -> Path:
    return root / "timerlog" / f"{number * FILE_SIZE:020}"


def checkpoint(root: Path, **changes: Any) -> bytes:
    sound = TimerCheckpoint(FIRST_MS - 5_000, 2 * FILE_SIZE + 2 * UNIT_SIZE, COUNT, COUNT)
    return format_timer_checkpoint_file(sound._replace(**changes))


def test_nothing_is_wrong_with_sound_files(root: Path) -> None:
    assert check(root) == []
    assert check(root, Sizes()) == []  # sizes and precision need not be told


def rewrite_size(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])


def zero(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def slot_at(due_ms: int) -> int:
    return due_ms // PRECISION_MS % (2 * 604_800) * SLOT_SIZE


def lead_slot_astray(root: Path) -> None:
    step = (FIRST_MS + 2_004) // PRECISION_MS
    rewrite(root / "timerwheel", slot_at(FIRST_MS + 2_004), SLOT_LAYOUT.pack(step, 0, 0, 0, 0))


DAMAGES: dict[str, tuple[Callable[[Path], object], str, int | None, str]] = {
    "wheel gone": (lambda root: (root / "timerwheel").unlink(), "timerwheel", None, "is missing"),
    "wheel cut": (lambda root: rewrite_size(root / "timerwheel", 3200), "timerwheel", None, "has 3200 bytes"),
    "wheel zeroed": (lambda root: zero(root / "timerwheel"), "timerwheel", None, "has 0 messages that wait"),
    "slot astray": (lambda root: lead_slot_astray(root), "timerwheel", slot_at(FIRST_MS + 2_004), "1 slots lead to no unit"),
    "unit garbled": (
        lambda root: rewrite(log_file(root, 1), UNIT_SIZE, b"\xee" * 12),
        f"timerlog/{FILE_SIZE:020}", UNIT_SIZE, "no unit stands here",
    ),
    "unit zeroed": (
        lambda root: rewrite(log_file(root, 2), 0, bytes(2 * UNIT_SIZE)),
        f"timerlog/{2 * FILE_SIZE:020}", 0, "no unit stands here",
    ),
    "unit of another message": (
        lambda root: rewrite(log_file(root, 0), 2 * UNIT_SIZE + 28, (1).to_bytes(8, "big")),
        f"timerlog/{0:020}", 2 * UNIT_SIZE, "1 units lead to no message of theirs",
    ),
    "unit of another time": (
        lambda root: rewrite(log_file(root, 0), 24, (1).to_bytes(4, "big")),
        f"timerlog/{0:020}", 0, "1 units lead to no message of theirs",
    ),
    "bytes behind the end": (
        lambda root: rewrite(log_file(root, 2), 2 * UNIT_SIZE, b"\xee" * 9),
        f"timerlog/{2 * FILE_SIZE:020}", 2 * UNIT_SIZE, "9 bytes follow",
    ),
    "file in the middle gone": (lambda root: log_file(root, 1).unlink(), f"timerlog/{2 * FILE_SIZE:020}", None, "files are missing"),
    "last file gone": (lambda root: log_file(root, 2).unlink(), f"timerlog/{2 * FILE_SIZE:020}", None, "is missing"),
    "file cut": (lambda root: rewrite_size(log_file(root, 1), 100), f"timerlog/{FILE_SIZE:020}", None, "has 100 bytes of 260"),
    "checkpoint gone": (lambda root: (root / "config/timercheck").unlink(), "config/timercheck", None, "is missing"),
    "checkpoint zeroed": (lambda root: zero(root / "config/timercheck"), "config/timercheck", 0, "holds nothing"),
    "checkpoint cut": (lambda root: rewrite_size(root / "config/timercheck", 30), "config/timercheck", 0, "has 30 bytes of 56"),
    "checkpoint ahead": (
        lambda root: (root / "config/timercheck").write_bytes(checkpoint(root, queue_offset=COUNT + 1)),
        "config/timercheck", 16, "it ends at 10",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", DAMAGES)
def test_each_damage_is_told_in_one_line_and_gone_after_a_rebuild_and_a_start(root: Path, kind: str) -> None:
    damage, path, offset, what = DAMAGES[kind]
    damage(root)
    (found,) = check(root)
    assert (found.path, found.offset) == (path, offset)
    assert what in found.what
    rebuild_store(root, SIZES)
    assert not (root / "timerwheel").exists()
    is_of_log = path.startswith("timerlog/")
    assert (root / "timerlog").exists() is not is_of_log
    store, files = open_store(root), timer_files(root)
    files.recover(store.max_physical_offset, lambda offset, size: None)
    assert not files.aside  # nothing is damaged any more, and what was delivered is known as before
    if is_of_log:
        assert (files.queue_offset, files.delivered_offset, files.delivered_ms) == (0, COUNT, FIRST_MS - 5_000)
    else:
        assert files.pending_count == COUNT - 2
    files.close()
    store.close()
    assert [issue.path for issue in check(root)] == ([path] if path == "config/timercheck" else [])


def test_a_rebuild_leaves_sound_timers_alone(root: Path) -> None:
    before = {path: path.read_bytes() for path in [root / "timerwheel", *(root / "timerlog").iterdir()]}
    rebuild_store(root, SIZES)
    assert {path: path.read_bytes() for path in before} == before


def test_a_wheel_that_is_gone_is_written_from_the_log_by_a_start(root: Path) -> None:
    (root / "timerwheel").unlink()
    store, files = open_store(root), timer_files(root)
    files.recover(store.max_physical_offset, lambda offset, size: None)
    assert files.pending_count == COUNT - 2
    files.close()
    store.close()
    assert check(root) == []


def test_a_message_without_a_unit_is_told(root: Path) -> None:
    store = open_store(root)
    properties = b"REAL_TOPIC\x01t\x02TIMER_OUT_MS\x01%d\x02" % (FIRST_MS + 90_000)
    store.append(Draft(TIMER_TOPIC, 0, b"astray", properties))
    store.append(Draft("orders", 0, b"the last one"))
    store.close()
    assert check(root) == []  # the next start puts it into the wheel
    content = (root / "config/timercheck").read_bytes()
    (root / "config/timercheck").write_bytes(content[:16] + (COUNT + 1).to_bytes(8, "big") + content[24:])
    (found,) = check(root)
    assert (found.path, "1 messages of the timers' queue have no unit" in found.what) == ("timerlog", True)


def test_after_a_crash_only_what_the_checkpoint_covers_is_judged(root: Path) -> None:
    (root / "abort").write_text("1")
    rewrite(log_file(root, 2), 2 * UNIT_SIZE, b"\xee" * 9)
    zero(root / "timerwheel")
    assert check(root) == []
    rewrite(log_file(root, 1), UNIT_SIZE, b"\xee" * 12)
    assert [found.path for found in check(root)] == [f"timerlog/{FILE_SIZE:020}"]


def test_while_the_broker_runs_timers_are_a_note(root: Path) -> None:
    lock = LocalDisk().lock(root / "lock")
    found = list(StoreCheck(root, SIZES).run())
    lock.close()
    assert "timers are not checked while the broker runs" in [issue.what for issue in found]


def test_a_link_in_the_place_of_a_file_is_not_followed(root: Path) -> None:
    (root / "config/timercheck").unlink()
    (root / "config/timercheck").symlink_to("/etc/passwd")
    assert [found.path for found in check(root)] == ["config/timercheck"]


"""Four units, and a blank end."""


@pytest.fixture
def files(tmp_path: Path) -> UnitFiles:
    log = TimerLog(LocalDisk(), tmp_path, FILE_SIZE)
    for number in range(6):
        log.append(-1, 1, 1_000, number, (number * 10, 10, 7))
    log.close()
    return UnitFiles(log_files(tmp_path), FILE_SIZE)


def test_units_come_in_order_over_the_blank_end_of_a_file(files: UnitFiles) -> None:
    with files:
        walked = list(files.walk())
    assert [unit.delay_ms for _, unit in walked] == list(range(6))
    assert [position for position, _ in walked][3:5] == [3 * UNIT_SIZE, FILE_SIZE]
    assert files.end == FILE_SIZE + 2 * UNIT_SIZE


def test_a_place_has_a_whole_unit_or_none(files: UnitFiles) -> None:
    with files:
        assert (files.unit(FILE_SIZE) or files.unit(0)) == files.unit(FILE_SIZE)
        places = (-1, 1, 4 * UNIT_SIZE, FILE_SIZE + 2 * UNIT_SIZE, 2 * FILE_SIZE)
        assert [files.unit(place) for place in places] == [None] * 5


def test_bytes_behind_an_end_are_counted_to_the_last_that_is_no_zero(files: UnitFiles) -> None:
    with files:
        assert files.bytes_behind(FILE_SIZE + 2 * UNIT_SIZE) == 0
        assert 0 < files.bytes_behind(FILE_SIZE + UNIT_SIZE) <= UNIT_SIZE


def test_there_may_be_no_files() -> None:
    with UnitFiles([], FILE_SIZE) as files:
        assert (list(files.walk()), files.end, files.unit(0), files.bytes_behind(0)) == ([], 0, None, 0)
