"""The small files of a store, and what recovery has set aside."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orbitmq.store.inspection.issues import Issue, Severity
from orbitmq.store.inspection.small_files import check_quarantine, quarantined, records_in
from orbitmq.wire.messages.record import format_record

from .parts import issues, make_store, wrong


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_store(tmp_path / "store")


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("rebuild", b"0 orders\n", "the rebuilding of 1 queues was interrupted"),
        ("rebuild", b"", "is empty"),
        ("rebuild", b"\0\0\0\n", "1 of 1 lines cannot be read"),
        ("deleted", b"12 orders\n\xff\xfe\n", "1 of 2 lines cannot be read"),
        ("jumps", b"12 9 1\n12 9\n", "1 of 2 lines cannot be read"),
        ("deleted", b"12 orders", "1 of 1 lines cannot be read"),
        ("begin", b"\0" * 30, "cannot be read"),
    ],
)
def test_a_file_of_lines_that_is_damaged_is_named(root: Path, name: str, content: bytes, what: str) -> None:
    (root / name).write_bytes(content)
    (found,) = wrong(root)
    assert (found.path, found.what) == (name, what)


@pytest.mark.parametrize("name", ["checkpoint", "begin", "rebuild", "deleted"])
def test_a_link_in_the_place_of_a_file_is_not_followed(root: Path, name: str) -> None:
    (root / name).unlink(missing_ok=True)
    (root / name).symlink_to("/etc/passwd")
    assert {issue.path for issue in wrong(root)} == {name}


def test_a_stop_that_was_not_orderly_is_worth_knowing(root: Path) -> None:
    (root / "abort").write_text("7")
    assert [(issue.path, issue.severity) for issue in issues(root)] == [("abort", Severity.NOTE)]


def set_aside(root: Path, content: bytes, offset: int = 5000, note: str | None = None) -> Path:
    path = root / "quarantine" / f"commitlog-{offset:020}-1"
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_bytes(content)
    described = {"log": "commitlog", "offset": offset, "length": len(content), "reason": "why"}
    path.with_name(path.name + ".json").write_text(json.dumps(described) if note is None else note)
    return path


def checked(root: Path) -> list[Issue]:
    return list(check_quarantine(root))


def test_whole_records_that_were_set_aside_can_be_brought_back(tmp_path: Path) -> None:
    one = format_record(topic="orders", body=b"one", physical_offset=5005)
    two = format_record(topic="orders", body=b"two", physical_offset=5005 + len(one))
    path = set_aside(tmp_path, b"xxxxx" + one + two + b"torn")
    assert [bytes(record.body) for record in records_in(path)] == [b"one", b"two"]
    (found,) = checked(tmp_path)
    assert found.severity is Severity.WRONG
    assert "2 whole records" in found.what


def test_records_that_another_master_has_replaced_are_not_to_be_brought_back(tmp_path: Path) -> None:
    one = format_record(topic="orders", body=b"one", physical_offset=5000)
    described = {"log": "commitlog", "offset": 5000, "length": len(one), "reason": "the master has other records there"}
    set_aside(tmp_path, one, note=json.dumps(described))
    (found,) = checked(tmp_path)
    assert (found.severity, "never acknowledged" in found.what) == (Severity.NOTE, True)


def test_a_last_record_without_properties_is_whole_although_its_zeros_were_cut(tmp_path: Path) -> None:
    path = set_aside(tmp_path, format_record(topic="orders", body=b"one", physical_offset=5000).rstrip(b"\0"))
    assert [bytes(record.body) for record in records_in(path)] == [b"one"]


def test_torn_bytes_that_were_set_aside_are_worth_knowing(tmp_path: Path) -> None:
    set_aside(tmp_path, b"torn", note="[]")
    assert [found.severity for found in checked(tmp_path)] == [Severity.NOTE]


def test_only_files_with_the_names_of_recovery_are_looked_at(tmp_path: Path) -> None:
    path = set_aside(tmp_path, b"torn")
    for name in ("commitlog-x-1", "commitlog-unfinished", "commitlog-5-y", "other", "salvaged"):
        (path.parent / name).write_text("")
    assert quarantined(tmp_path) == [path]
