"""A file of the log that is cut or removed from outside while the store is open: it is fenced, and the process lives."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from children import environment
from orbitmq.errors import FileCut, StoreError, StoreUnavailable
from orbitmq.model.message import Host
from orbitmq.store import FlushMode, Store, StoreConfig, StoreIssueKind
from orbitmq.store.local_disk import LocalDisk
from orbitmq.store.log.segment import segment_name
from orbitmq.testing import FakeClock

from .parts import draft

SEGMENT_SIZE = 65_536


class Cut:
    """A store on the real disk with three files of the log, and what is done to them."""

    def __init__(self, path: Path, flush: FlushMode = FlushMode.ASYNC) -> None:
        self.clock = FakeClock(1_000)
        self.path = path
        self.config = StoreConfig(path=path, segment_size=SEGMENT_SIZE, consume_queue_units=100, flush=flush)
        self.store = self.open()
        for _ in range(15):
            self.store.append(draft(body=b"x" * 10_000))
        self.store.flush()

    def open(self) -> Store:
        return Store.open(self.config, store_host=Host("127.0.0.1", 1), clock=self.clock)

    def file(self, number: int) -> Path:
        return self.path / "commitlog" / segment_name(number * SEGMENT_SIZE)


@pytest.fixture
def cut(tmp_path: Path) -> Cut:
    return Cut(tmp_path)


READS = {
    "read": lambda store: store.read("orders", 0, 0),
    "message_at": lambda store: store.message_at("orders", 0, 0),
    "record_at": lambda store: store.record_at(0),
    "parsed_at": lambda store: store.parsed_at(0),
    "earliest": lambda store: store.earliest_stored_at_ms("orders", 0),
    "stored_at_ms": lambda store: store.stored_at_ms("orders", 0, 0),
    "offset_at": lambda store: store.offset_at("orders", 0, 5),
}


@pytest.mark.parametrize("how", READS)
def test_a_reader_of_a_cut_file_is_refused_and_the_store_is_fenced(cut: Cut, how: str) -> None:
    os.truncate(cut.file(0), 100)
    with pytest.raises(StoreUnavailable, match=f"{segment_name(0)} was cut short from outside"):
        READS[how](cut.store)
    assert [issue.kind for issue in cut.store.issues] == [StoreIssueKind.FENCED]
    assert "bring it back" in cut.store.warnings[0]
    with pytest.raises(StoreUnavailable, match="was cut short"):
        cut.store.append(draft())
    # Other files are read as before.
    assert cut.store.read("orders", 0, 13).message_count == 2


@pytest.mark.parametrize("left", [0, 100, 40_000, SEGMENT_SIZE - 1])
def test_no_message_is_written_behind_the_end_of_a_cut_file(cut: Cut, left: int) -> None:
    cut.clock.advance(1)
    os.truncate(cut.file(2), left)
    with pytest.raises(StoreUnavailable, match="was cut short"):
        cut.store.append(draft())
    assert cut.store.issues[0].kind is StoreIssueKind.FENCED


def test_the_file_is_checked_every_millisecond(cut: Cut, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []
    monkeypatch.setattr(type(cut.store._commit_log), "check_written", lambda log: looks.append(1))
    for _ in range(5):
        cut.store.append(draft())
    assert looks == []
    cut.clock.advance(1)
    for _ in range(5):
        cut.store.append(draft())
    assert len(looks) == 1


def test_room_is_not_made_in_a_cut_file(cut: Cut) -> None:
    os.truncate(cut.file(2), 100)
    with pytest.raises(StoreUnavailable, match="was cut short"):
        cut.store._commit_log.make_room(20_000)


def test_a_sync_of_a_cut_file_acknowledges_nothing(tmp_path: Path) -> None:
    cut = Cut(tmp_path, FlushMode.SYNC)
    result = cut.store.append(draft())
    os.truncate(cut.file(2), 100)
    told: list[bool | None] = []
    assert not cut.store.wait_durable(result.end, told.append)
    assert told == [False]
    assert cut.store.issues[0].kind is StoreIssueKind.FENCED
    assert "was cut short" in cut.store.warnings[0]


@pytest.mark.parametrize("is_removed", [False, True])
def test_a_closed_file_is_not_opened_again_with_zeros_for_what_was_cut(cut: Cut, is_removed: bool) -> None:
    cut.store._commit_log.log.segments[0].close()
    if is_removed:
        cut.file(0).unlink()
    else:
        os.truncate(cut.file(0), 100)
    with pytest.raises(StoreUnavailable, match="was cut short or removed"):
        cut.store.read("orders", 0, 0)
    assert cut.file(0).exists() is not is_removed
    assert cut.store.issues[0].kind is StoreIssueKind.FENCED


def test_a_file_that_was_cut_between_the_start_and_its_first_use_is_not_used(cut: Cut) -> None:
    cut.store.close()
    store = cut.open()
    for segment in store._commit_log.log.segments[:1]:
        segment.close()
    os.truncate(cut.file(0), 100)
    with pytest.raises(StoreUnavailable, match="was cut short"):
        store.read("orders", 0, 0)


def test_a_start_with_a_cut_file_is_refused(cut: Cut) -> None:
    cut.store.close()
    os.truncate(cut.file(0), 100)
    with pytest.raises(StoreError, match="cut short"):
        cut.open()


def test_the_disk_says_whether_a_file_is_whole(tmp_path: Path) -> None:
    file = LocalDisk().open(tmp_path / "file", 10_000)
    assert file.is_whole()
    file.sync()
    os.truncate(tmp_path / "file", 9_999)
    assert not file.is_whole()
    with pytest.raises(FileCut):
        file.sync()
    file.close()


@pytest.mark.real
def test_a_process_whose_log_is_cut_lives(tmp_path: Path) -> None:
    """Without the looks it dies by SIGBUS: it is a process of its own."""
    program = f"""
import os
from pathlib import Path
from orbitmq.errors import StoreUnavailable
from orbitmq.testing import FakeClock
from unit.store.parts import draft
from unit.store.test_cut_files import Cut, READS

cut = Cut(Path({str(tmp_path)!r}))
os.truncate(cut.file(0), 0)
os.truncate(cut.file(2), 0)
cut.clock.advance(1)
for act in (lambda store: store.append(draft(body=b"x" * 20_000)), *READS.values()):
    try:
        act(cut.store)
    except StoreUnavailable as error:
        print(error)
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, env=environment()
    )
    assert ended.returncode == 0, (ended.returncode, ended.stderr)
    assert ended.stdout.count("was cut short") == 1 + len(READS)


@pytest.mark.parametrize("is_written_again", [False, True])
def test_a_consume_queue_that_is_cut_passes_over_no_message_and_a_restart_mends_it(
    tmp_path: Path, is_written_again: bool
) -> None:
    cut = Cut(tmp_path)
    os.truncate(tmp_path / "consumequeue" / "orders" / "0" / segment_name(0), 0)
    if is_written_again:
        cut.store.append(draft())
        cut.store.flush()
    with pytest.raises(FileCut, match="orders/0 was cut short"):
        cut.store.read("orders", 0, 3)
    cut.store.close()
    assert cut.open().read("orders", 0, 3, 100, 1 << 20).message_count == 12 + is_written_again
