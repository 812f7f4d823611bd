"""Walks through a log: every record, every damaged place, and nothing that only looks like a record."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.store.inspection.log_walk import Damage, LogFile, LogWalk
from orbitmq.wire.messages.record import MAGIC_BLANK, PREFIX, Record, format_record

SIZE = 4096


def record(offset: int, body: bytes = b"x" * 100) -> bytes:
    return format_record(topic="orders", body=body, physical_offset=offset)


def write_log(directory: Path, count: int = 60) -> list[LogFile]:
    """Write a log of several files, as a broker would."""
    files: list[LogFile] = []
    content, base = b"", 0
    for _ in range(count):
        found = record(base + len(content))
        if len(content) + len(found) + 8 > SIZE:
            files.append(write(directory, base, content + PREFIX.pack(SIZE - len(content), MAGIC_BLANK)))
            content, base = b"", base + SIZE
            found = record(base)
        content += found
    files.append(write(directory, base, content))
    return files


def write(directory: Path, base: int, content: bytes) -> LogFile:
    path = directory / f"{base:020}"
    path.write_bytes(content.ljust(SIZE, b"\0"))
    return LogFile(base, SIZE, path)


def change(file: LogFile, at: int, content: bytes) -> None:
    with file.path.open("r+b") as opened:
        opened.seek(at)
        opened.write(content)


def walked(files: list[LogFile], start: int = 0) -> tuple[int, list[Damage]]:
    found = list(LogWalk(files).run(start))
    return sum(isinstance(item, Record) for item in found), [item for item in found if isinstance(item, Damage)]


def test_every_record_of_every_file_is_met_in_order(tmp_path: Path) -> None:
    files = write_log(tmp_path)
    passed: list[int] = []
    walk = LogWalk(files, on_read=passed.append)
    found = [item for item in walk.run() if isinstance(item, Record)]
    assert len(files) == 3
    assert [item.physical_offset for item in found] == sorted(item.physical_offset for item in found)
    assert len(found) == 60
    assert walk.end == found[-1].physical_offset + found[-1].size
    assert sum(passed) >= walk.end


@pytest.mark.parametrize("start", [1, 100, SIZE - 1, SIZE, 2 * SIZE + 5])
def test_a_start_anywhere_finds_the_next_record(tmp_path: Path, start: int) -> None:
    files = write_log(tmp_path)
    every = [item.physical_offset for item in LogWalk(files).run() if isinstance(item, Record)]
    found = [item.physical_offset for item in LogWalk(files).run(start) if isinstance(item, Record)]
    assert found == [offset for offset in every if offset >= start]


@pytest.mark.parametrize("content", [b"\0" * 30, b"\xff" * 30, b"y"], ids=["zeros", "garbage", "one byte"])
def test_the_walk_goes_on_behind_damage(tmp_path: Path, content: bytes) -> None:
    files = write_log(tmp_path)
    size = len(record(0))
    change(files[1], 2 * size + 90, content)  # in the body: its checksum tells
    count, damages = walked(files)
    assert count == 59
    assert [(damage.start, damage.end, damage.is_tail) for damage in damages] == [
        (SIZE + 2 * size, SIZE + 3 * size, False)
    ]


def test_damage_may_reach_over_the_end_of_a_file(tmp_path: Path) -> None:
    files = write_log(tmp_path)
    change(files[0], SIZE - 500, b"\xff" * 500)
    change(files[1], 0, b"\xff" * 8)
    _, damages = walked(files)
    assert [damage.end for damage in damages] == [SIZE + len(record(0))]


def test_a_file_that_is_missing_is_damage(tmp_path: Path) -> None:
    files = write_log(tmp_path)
    _, damages = walked([files[0], *files[2:]])
    assert damages == [Damage(SIZE, 2 * SIZE, "the file is missing")]


@pytest.mark.parametrize("size", [0, 10, 1000])
def test_a_file_that_was_cut_is_damage_up_to_the_next_file(tmp_path: Path, size: int) -> None:
    files = write_log(tmp_path)
    with files[1].path.open("r+b") as file:
        file.truncate(size)
    _, damages = walked(files)
    assert [(damage.end, damage.reason) for damage in damages] == [
        (2 * SIZE, f"the file ends after {size} of {SIZE} bytes")
    ]


def test_zeros_at_the_end_are_none_also_in_files_made_ahead(tmp_path: Path) -> None:
    files = [*write_log(tmp_path), write(tmp_path, 3 * SIZE, b"")]
    assert walked(files) == (60, [])


def test_a_torn_tail_is_told_from_damage_inside(tmp_path: Path) -> None:
    files = write_log(tmp_path)
    walk = LogWalk(files)
    list(walk.run())
    change(files[-1], walk.end % SIZE, b"torn")
    assert walked(files)[1] == [Damage(walk.end, walk.end + 4, "magic 0x00000000", is_tail=True)]


def test_what_looks_like_a_record_inside_a_body_is_none(tmp_path: Path) -> None:
    inner = record(7777)
    content = record(0, body=inner + b"rest")
    file = write(tmp_path, 0, content + record(len(content)))
    change(file, 95, b"\xff")
    count, damages = walked([file])
    assert count == 1
    assert damages[0].end == len(content)


@pytest.mark.parametrize("size", [0xFFFFFFFF, 0x7FFFFFFF, SIZE, 1, 0])
def test_an_absurd_size_costs_no_more_than_its_record(tmp_path: Path, size: int) -> None:
    files = write_log(tmp_path)
    change(files[0], 0, size.to_bytes(4, "big"))
    count, damages = walked(files)
    assert (count, damages[0].end) == (59, len(record(0)))


def test_a_file_that_cannot_be_read_is_damage(tmp_path: Path) -> None:
    files = write_log(tmp_path)
    files[1].path.unlink()
    files[1].path.symlink_to(files[0].path)
    _, damages = walked(files)
    assert [(damage.start, damage.end) for damage in damages] == [(SIZE, 2 * SIZE)]


def test_a_record_that_is_just_being_written_is_looked_at_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from orbitmq.store.inspection import reading

    files = write_log(tmp_path)
    whole = files[0].path.read_bytes()
    change(files[0], 0, b"\0\0")
    forget = reading.ReadOnlyFile.forget

    def finish(self: reading.ReadOnlyFile) -> None:
        files[0].path.write_bytes(whole)
        forget(self)

    monkeypatch.setattr(reading.ReadOnlyFile, "forget", finish)
    assert walked(files) == (60, [])
