"""The audit log: lines of JSON, a file of its owner's alone."""

from __future__ import annotations

import json
import logging
import stat
from pathlib import Path

import pytest

from cases import each_case
from orbitmq.audit import AuditFile, AuditLogging, AuditRecord, format_record


def record(**changes: object) -> AuditRecord:
    values: dict = {"at_ms": 1_700_000_000_123, "who": "ann", "action": "delete_topic", "target": {"topic": "orders"}}
    return AuditRecord(**(values | changes))


def test_a_record_says_who_changed_what_when_and_how() -> None:
    line = format_record(record(before={"queues": 8}, after=None))
    assert json.loads(line) == {
        "time": "2023-11-14T22:13:20.123+00:00",
        "who": "ann",
        "action": "delete_topic",
        "target": {"topic": "orders"},
        "before": {"queues": 8},
        "after": None,
        "error": None,
    }


@each_case("two\nlines", "\u2028", "\ud800", "\0")
def test_a_record_is_one_line_whatever_its_texts_hold(text: str) -> None:
    line = format_record(record(who=text, error=text))
    assert len(line.splitlines()) == 1
    assert json.loads(line)["who"] == text


def test_what_was_sent_does_not_make_a_line_long_without_a_limit() -> None:
    sent = {f"field {number}" + "x" * 10_000: "\ud800" * 70_000 for number in range(100)}
    long = record(target={"topic": "orders", **sent}, error="x" * 10**6, before={"a": ["y" * 10**6]})
    line = format_record(long)
    found = json.loads(line)
    assert len(line) < 256 * 1024
    assert found["target"]["topic"] == "orders"
    assert found["target"]["…"] == "61 more"
    assert found["error"].endswith("x… (1000000 characters)")


def test_an_error_that_repeats_a_secret_is_masked() -> None:
    line = format_record(record(error="broker-a: namesrvAddr: 'http://ann:hunter2@h' is not allowed"))
    assert json.loads(line)["error"] == "broker-a: namesrvAddr: 'http://ann:******@h' is not allowed"


def test_values_that_json_does_not_know_become_text() -> None:
    assert json.loads(format_record(record(after={1})))["after"] == "{1}"


def test_records_are_appended_to_what_the_file_has(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    AuditFile(path).write(record(action="create_topic"))
    AuditFile(path).write(record(action="delete_topic"))
    assert [json.loads(line)["action"] for line in path.read_text().splitlines()] == ["create_topic", "delete_topic"]


def test_the_file_is_its_owners_alone(tmp_path: Path) -> None:
    AuditFile(tmp_path / "audit.log")
    assert stat.S_IMODE((tmp_path / "audit.log").stat().st_mode) == 0o600


def test_lines_after_a_rotation_go_to_a_new_file(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    audit = AuditFile(path)
    audit.write(record(action="first"))
    path.rename(tmp_path / "audit.log.1")
    audit.write(record(action="second"))
    assert json.loads(path.read_text())["action"] == "second"


def test_a_file_that_cannot_be_opened_is_refused_before_any_change(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nowhere"):
        AuditFile(tmp_path / "nowhere" / "audit.log")


def test_without_a_file_records_are_logged_whatever_else_is(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger(), "level", logging.ERROR)
    AuditLogging().write(record())
    assert '"action": "delete_topic"' in caplog.text
