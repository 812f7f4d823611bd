"""The text of a settings file with changes in it."""

from __future__ import annotations

import stat
from pathlib import Path

import javaproperties
import pytest

from cases import each_case
from orbitmq.broker.settings.file import SettingsFile, changed_text, check_keys
from orbitmq.errors import ConfigError


@each_case(
    ("", {"a": "1"}, "a=1\n"),
    ("a=0\n# b\nb : 2\n", {"b": "3"}, "a=0\n# b\nb=3\n"),
    ("a=0", {"b": "3"}, "a=0\nb=3\n"),
    ("a=0\na=1\n", {"a": "2"}, "a=2\na=2\n"),
    ("ab=0\n", {"a": "2"}, "ab=0\na=2\n"),
    ("a=0\r\nb=1\r\n", {"a": "2"}, "a=2\nb=1\n"),
    ("c=x\\\na=0\n", {"a": "2"}, "c=x\\\na=0\n\na=2\n"),
    ("a=x\\\n  y\nb=1\n", {"a": "2"}, "a=x\\\n  y\nb=1\n\na=2\n"),
    ("a 0\n", {"a": "2"}, "a 0\na=2\n"),
    ("c=x\\", {"a": "2"}, "c=x\\\n\na=2\n"),
)
def test_lines_of_changed_keys_are_rebuilt_and_no_others(text: str, changes: dict[str, str], expected: str) -> None:
    changed = changed_text(text, changes)
    assert changed == expected
    assert javaproperties.loads(changed) == javaproperties.loads(text) | changes


def test_what_is_no_settings_file_is_not_touched() -> None:
    with pytest.raises(OSError, match="not a properties file"):
        changed_text("a=\\u12", {"a": "1"})


@each_case(0o600, 0o640)
def test_who_could_not_read_the_file_cannot_after_a_change(mode: int, tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_text("initAuthenticationUser=secret\n")
    path.chmod(mode)
    for value in ("1", "2"):
        SettingsFile(path, holds_changes_alone=False).keep({"a": value})
    assert {file.name: stat.S_IMODE(file.stat().st_mode) & ~mode for file in tmp_path.iterdir()} == {
        "broker.conf": 0,
        "broker.conf.bak": 0,
    }


def test_a_link_to_the_file_stays_a_link(tmp_path: Path) -> None:
    path, link = tmp_path / "real.conf", tmp_path / "broker.conf"
    path.write_text("a=1\n")
    link.symlink_to(path)
    SettingsFile(link, holds_changes_alone=False).keep({"a": "2"})
    assert link.is_symlink()
    assert path.read_text() == "a=2\n"


def test_a_file_that_is_not_utf_8_any_more_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_bytes(b"# \xfc\n")
    with pytest.raises(OSError, match="not UTF-8"):
        SettingsFile(path, holds_changes_alone=False).keep({"a": "2"})
    assert path.read_bytes() == b"# \xfc\n"


def test_keys_without_an_effect_are_named_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "broker.conf"
    path.write_text("brokerNmae=x\nsendMessageThreadPoolNums=8\nbrokerName=a\n")
    check_keys(path, strict=False)
    assert [record.message for record in caplog.records] == [
        "the setting brokerNmae is not known and has no effect: brokerName, perhaps, or nothing at all",
        "the setting sendMessageThreadPoolNums has no effect in this broker",
    ]


def test_a_strict_start_refuses_unknown_keys_and_takes_javas(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_text("sendMessageThreadPoolNums=8\nstorePathCommitLog=/s/commitlog\nrocketmqHome=/opt/rocketmq\n")
    check_keys(path, strict=True)
    path.write_text("flushDiskTyp=SYNC_FLUSH\n")
    with pytest.raises(ConfigError, match="'flushDiskTyp' is not allowed, expected flushDiskType, perhaps, or"):
        check_keys(path, strict=True)
