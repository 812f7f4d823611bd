from __future__ import annotations

import asyncio
import errno
import os
import stat
import threading
from pathlib import Path

import pytest

from orbitmq.errors import HeaderError, StoreError
from orbitmq.files import has_generation, read_generations, read_newest, read_table, replace_file, write_aside


def parse(data: bytes) -> str:
    if not data.startswith(b"{"):
        raise HeaderError("damaged")
    return data.decode()


def test_the_previous_generation_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "config" / "topics.json"
    replace_file(file, b"{1}")
    replace_file(file, b"{2}")
    assert read_generations(file, parse) == "{2}"
    assert (tmp_path / "config" / "topics.json.bak").read_bytes() == b"{1}"


@pytest.mark.parametrize("damage", [b"", b"\0\0\0", b"   "])
def test_issue_3401_a_damaged_file_is_replaced_by_its_backup(tmp_path: Path, damage: bytes) -> None:
    file = tmp_path / "topics.json"
    replace_file(file, b"{1}")
    replace_file(file, b"{2}")
    file.write_bytes(damage)
    assert read_generations(file, parse) == "{1}"


def test_a_missing_file_with_a_backup_is_read_from_it(tmp_path: Path) -> None:
    file = tmp_path / "topics.json"
    replace_file(file, b"{1}")
    replace_file(file, b"{2}")
    file.unlink()
    assert read_generations(file, parse) == "{1}"


def test_nothing_is_no_error_but_damage_everywhere_is(tmp_path: Path) -> None:
    file = tmp_path / "topics.json"
    assert read_generations(file, parse) is None
    file.write_bytes(b"?")
    with pytest.raises(StoreError, match=r"topics\.json"):
        read_generations(file, parse)


@pytest.mark.parametrize("step", ["fsync", "link", "replace"])
def test_a_write_that_fails_at_any_step_leaves_something_to_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    file = tmp_path / "topics.json"
    replace_file(file, b"{1}")

    def fail(*arguments: object) -> None:
        raise OSError("no space")

    with monkeypatch.context() as patch:
        patch.setattr(os, step, fail)
        if step == "link":  # the file system has none: a copy does
            replace_file(file, b"{2}")
        else:
            with pytest.raises(OSError, match="no space"):
                replace_file(file, b"{2}")
    assert read_generations(file, parse) == ("{2}" if step == "link" else "{1}")


def test_an_error_behind_the_rename_says_that_the_new_content_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "topics.json"
    replace_file(file, b"{1}")
    fsync = os.fsync

    def fail(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EIO, "Input/output error")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match=r"topics\.json has its new content.*Input/output error") as refused:
        replace_file(file, b"{2}")
    assert refused.value.errno == errno.EIO
    assert read_generations(file, parse) == "{2}"


@pytest.mark.parametrize("damage", [None, b"", b"?"])
def test_a_table_whose_past_must_not_come_back_is_not_read_from_its_backup(
    tmp_path: Path, damage: bytes | None
) -> None:
    file = tmp_path / "auth.json"
    assert read_newest(file, parse) is None
    replace_file(file, b"{1}")
    replace_file(file, b"{2}")
    assert read_newest(file, parse) == "{2}"
    file.unlink() if damage is None else file.write_bytes(damage)
    with pytest.raises(StoreError, match=r"auth\.json cannot be used: .*copy auth\.json\.bak to auth\.json"):
        read_newest(file, parse)
    assert [path.read_bytes() for path in tmp_path.glob("*.damaged-1")] == ([b"?"] if damage == b"?" else [])


def test_content_is_synced_whole_and_then_its_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rename may reach the disk before what it names: each sync has to see all bytes of its file."""
    synced: list[int | str] = []
    fsync = os.fsync

    def watch(descriptor: int) -> None:
        state = os.fstat(descriptor)
        synced.append("directory" if stat.S_ISDIR(state.st_mode) else state.st_size)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", watch)
    replace_file(tmp_path / "topics.json", b"{12345}")
    assert synced == [7, "directory"]


def test_no_file_is_left_next_to_a_file_and_its_backup(tmp_path: Path) -> None:
    file = tmp_path / "topics.json"
    (tmp_path / "topics.json.bak.tmp").write_bytes(b"of a life that was cut short")
    for content in (b"{1}", b"{2}", b"{3}"):
        replace_file(file, content)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        "topics.json": b"{3}",
        "topics.json.bak": b"{2}",
    }


def test_the_backup_is_the_old_file_itself_whatever_lay_in_its_way(tmp_path: Path) -> None:
    """A copy could be cut short; and a leftover may be another name of the very file that would be written over."""
    file = tmp_path / "topics.json"
    replace_file(file, b"{1}")
    os.link(file, tmp_path / "topics.json.bak.tmp")
    replace_file(file, b"{2}")
    (tmp_path / "topics.json.bak.tmp").write_bytes(b"of a life that was cut short")
    old = file.stat().st_ino
    replace_file(file, b"{3}")
    assert (tmp_path / "topics.json.bak").stat().st_ino == old


def test_what_was_damaged_is_kept_whatever_is_written_afterwards_and_once(tmp_path: Path) -> None:
    file = tmp_path / "topics.json"
    file.write_bytes(b"?1")
    (tmp_path / "topics.json.bak").write_bytes(b"?2")
    for _ in range(2):
        with pytest.raises(StoreError):
            read_generations(file, parse)
    for number in range(3):
        replace_file(file, b"{%d}" % number)
    kept = sorted(path.name for path in tmp_path.iterdir() if "damaged" in path.name)
    assert kept == ["topics.json.damaged-1", "topics.json.damaged-2"]
    assert [(tmp_path / name).read_bytes() for name in kept] == [b"?1", b"?2"]


@pytest.mark.parametrize("damage", [None, b"", b"?"])
def test_a_backup_is_read_and_that_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: bytes | None
) -> None:
    file = tmp_path / "topics.json"
    replace_file(file, b"{1}")
    replace_file(file, b"{2}")
    assert (read_generations(file, parse), caplog.messages) == ("{2}", [])
    file.unlink() if damage is None else file.write_bytes(damage)
    assert read_generations(file, parse) == "{1}"
    assert f"{file}.bak is read in place of {file}" in caplog.messages[-1]


@pytest.mark.parametrize("renames", [0, 1])
def test_a_kill_while_a_damaged_file_is_replaced_leaves_a_generation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, renames: int
) -> None:
    """The `.bak` is all there is then: it goes when the new content has its name, and not before."""
    file = tmp_path / "topics.json"
    replace_file(file, b"{1}")
    replace_file(file, b"{2}")
    file.write_bytes(b"?")
    rename, done = os.replace, []

    def kill(source: Path, target: Path) -> None:
        if len(done) == renames:
            raise KeyboardInterrupt
        done.append(rename(source, target))

    monkeypatch.setattr(os, "replace", kill)
    with pytest.raises(KeyboardInterrupt):
        replace_file(file, b"{3}")
    assert read_generations(file, parse) == ("{1}" if renames == 0 else "{3}")


def test_a_needed_table_of_which_no_generation_parses_stops_the_start_and_says_the_way_out(tmp_path: Path) -> None:
    file = tmp_path / "topics.json"
    assert read_table(file, parse) is None
    file.write_bytes(b"damaged")
    with pytest.raises(
        StoreError, match=r"topics\.json nor its \.bak can be used: .*damaged\. Bring one .* write \{\} into"
    ):
        read_table(file, parse)


def test_a_generation_is_the_file_or_its_backup(tmp_path: Path) -> None:
    file = tmp_path / "topics.json"
    assert not has_generation(file)
    replace_file(file, b"{1}")
    assert has_generation(file)
    replace_file(file, b"{2}")
    file.unlink()
    assert has_generation(file)


def test_a_caller_that_is_cancelled_while_a_thread_writes_goes_on_when_it_has_ended() -> None:
    """What is written next would make a file between them that neither meant."""
    began, may_end = threading.Event(), threading.Event()
    told: list[str] = []

    def write() -> None:
        began.set()
        may_end.wait()
        told.append("written")

    async def harness() -> None:
        writing = asyncio.ensure_future(write_aside(write))
        await asyncio.to_thread(began.wait)
        writing.cancel()
        for _ in range(10):
            await asyncio.sleep(0)
        told.append("gone on" if writing.done() else "waiting")
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await writing

    asyncio.run(harness())
    assert told == ["waiting", "written"]
