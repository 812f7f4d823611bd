"""`orbitmq store check` and `dump`: exit codes, output that is safe for terminals, and each table's file."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

from orbitmq.store.inspection.log_walk import LogFile, LogWalk
from orbitmq.wire.messages.record import Record, format_record

from .conftest import Call

pytestmark = pytest.mark.real


def names(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def test_a_sound_store_is_said_to_be_sound(call: Call, root: Path) -> None:
    result = call("check", root)
    assert (result.code, result.rows) == (0, [])
    assert "checked 40 records and 4 queues in" in result.err
    assert result.err.endswith(": 0 wrong\n")
    assert call("check", root, "-o", "json").out == "[]\n"
    assert {"config/consumerOffset.json", "config/subscriptionGroup.json.bak", "config/topics.json.bak"} <= set(
        names(root)
    )


def test_what_is_wrong_is_one_line_and_exit_code_1(call: Call, root: Path) -> None:
    (root / "checkpoint").write_bytes(b"")
    result = call("check", root)
    assert result.code == 1
    assert result.rows[0][:3] == ["wrong", "checkpoint", "-"]
    assert len(result.rows) == 1
    assert result.err.endswith(": 1 wrong\n")


def test_notes_are_no_fault(call: Call, root: Path) -> None:
    (root / "config" / "a-table").write_text("{}")
    result = call("check", root, "-o", "json")
    assert (result.code, result.named) == (0, {"config/a-table"})


@pytest.mark.parametrize("kind", ["removed", "emptied", "zeroed", "garbled"])
def test_each_table_that_is_damaged_is_named_and_no_other_file(call: Call, root: Path, kind: str) -> None:
    unlike = {}
    for path in sorted((root / "config").iterdir()):
        content = path.read_bytes()
        half = len(content) // 2
        if kind == "removed":
            path.unlink()
        else:
            noise = {"emptied": b"", "zeroed": content[:half] + bytes(9), "garbled": Random(1).randbytes(half)}
            path.write_bytes(noise[kind])
        named = call("check", root, "-o", "json").named
        # A generation before that is gone is not missed; nor are counts that were saved once.
        is_alone = not path.with_name(path.name + ".bak").exists()
        is_noted = path.name in (root / "tables").read_text().splitlines()
        silent = kind == "removed" and (path.name.endswith(".bak") or (is_alone and not is_noted))
        if named != (set() if silent else {f"config/{path.name}"}):
            unlike[path.name] = named
        path.write_bytes(content)
    assert unlike == {}


def test_topics_that_are_missing_are_named_when_there_are_messages(call: Call, root: Path) -> None:
    for name in ("topics.json", "topics.json.bak"):
        (root / "config" / name).unlink()
    assert call("check", root, "-o", "json").named == {"config/topics.json"}


def test_messages_of_an_unknown_topic_are_named(call: Call, root: Path) -> None:
    path = root / "config" / "topics.json"
    path.write_text(path.read_text().replace("bills", "other"))
    result = call("check", root, "-o", "json")
    assert [row["what"] for row in json.loads(result.out)] == [
        "there are messages of bills, a topic that it does not know"
    ]


def test_offsets_behind_their_queues_end_are_worth_knowing(call: Call, root: Path) -> None:
    path = root / "config" / "consumerOffset.json"
    path.write_text(path.read_text().replace("0:3", "0:3000"))
    result = call("check", root, "-o", "json")
    assert (result.code, result.named) == (0, {"config/consumerOffset.json"})


@pytest.mark.parametrize("words", [("missing",), (".",), ("file",), ("store", "-c", "missing")])
def test_what_is_no_store_is_a_usage_error(
    call: Call, root: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root.parent)
    (root.parent / "file").write_text("")
    result = call("check", *words)
    assert (result.code, result.out) == (2, "")
    assert words[-1] in result.err


def test_the_brokers_settings_say_how_large_files_are(call: Call, root: Path) -> None:
    settings = root.parent / "broker.conf"
    settings.write_text("mappedFileSizeCommitLog=65536\nmappedFileSizeConsumeQueue=320\nenabledAppendPropCRC=true\n")
    assert call("check", root, "-c", settings).code == 0
    settings.write_text("mappedFileSizeConsumeQueue=200\n")
    assert call("check", root, "-c", settings).code == 1


def test_names_that_a_terminal_would_obey_are_escaped(call: Call, root: Path) -> None:
    (root / "config" / "\x1b[2Jbad").write_text("")
    result = call("check", root)
    assert "\x1b" not in result.out
    assert r"\x1b[2Jbad" in result.out


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
