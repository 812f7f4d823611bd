"""`orbitmq store dump`: which records, in which form, and safe for terminals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orbitmq.store.inspection.log_walk import LogFile, LogWalk
from orbitmq.wire.messages.record import Record, format_record

from .conftest import Call

pytestmark = pytest.mark.real


def records(root: Path) -> list[Record]:
    files = [LogFile(int(path.name), 65536, path) for path in sorted((root / "commitlog").iterdir())]
    return [found for found in LogWalk(files).run() if isinstance(found, Record)]


def test_each_record_is_a_line_of_words(call: Call, root: Path) -> None:
    result = call("dump", root)
    assert result.code == 0
    assert len(result.rows) == 40
    assert result.rows[0][:5] == ["0", str(records(root)[0].size), "bills", "0", "0"]
    assert result.rows[0][-1] == "k"


def test_json_lines_have_the_body_when_it_is_asked_for(call: Call, root: Path) -> None:
    lines = [json.loads(line) for line in call("dump", root, "-o", "json", "--body").out.splitlines()]
    assert [line["body"] for line in lines] == [f"body {number}" for number in range(40)]
    assert lines[0]["properties"] == {"KEYS": "k"}
    assert "body" not in json.loads(call("dump", root, "-o", "json", "--limit", 1).out)


def test_only_what_is_asked_for_is_printed(call: Call, root: Path) -> None:
    every = records(root)
    first, end = every[3].physical_offset, every[30].physical_offset
    rows = call("dump", root, "--from", first, "--to", end, "--topic", "orders", "--queue", 1, "--limit", 4).rows
    wanted = [item for item in every[3:30] if (item.topic, item.queue_id) == ("orders", 1)][:4]
    assert [int(row[0]) for row in rows] == [item.physical_offset for item in wanted]
    assert call("dump", root, "--from", 1 << 60).rows == []


def test_damage_is_told_and_passed_over(call: Call, root: Path) -> None:
    item = records(root)[5]
    path = root / "commitlog" / f"{0:020}"
    content = bytearray(path.read_bytes())
    content[item.physical_offset : item.physical_offset + 8] = b"\xff" * 8
    path.write_bytes(content)
    result = call("dump", root)
    assert (result.code, len(result.rows)) == (1, 39)
    assert f"from {item.physical_offset} to {item.physical_offset + item.size}: no records" in result.err


def test_an_offset_inside_a_record_begins_with_the_next_and_is_no_damage(call: Call, root: Path) -> None:
    result = call("dump", root, "--from", 5)
    assert (result.code, len(result.rows), result.err) == (0, 39, "")


def test_bytes_that_a_terminal_would_obey_are_escaped(call: Call, tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    content = format_record(
        topic="a\x1b]0;x\x07 b", body=b"\x1b[2J\xff\n", properties=b"KEYS\x01k\xfe\x9b \x02TAGS\x01\xe2\x80\xae\x02"
    )
    (tmp_path / "commitlog" / f"{0:020}").write_bytes(content.ljust(4096, b"\0"))
    result = call("dump", tmp_path, "--body")
    assert (result.code, len(result.rows)) == (0, 1)
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(result.out)
    assert json.loads(call("dump", tmp_path, "-o", "json").out)["topic"] == "a\x1b]0;x\x07 b"


def test_times_that_no_calendar_has_are_printed_as_they_are(call: Call, tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    content = b""
    for stored_at_ms in ((1 << 63) - 1, -5, 0):
        content += format_record(topic="t", body=b"", physical_offset=len(content), stored_at_ms=stored_at_ms)
    (tmp_path / "commitlog" / f"{0:020}").write_bytes(content.ljust(4096, b"\0"))
    assert [row[5] for row in call("dump", tmp_path).rows] == [str((1 << 63) - 1), "-", "-"]
