from __future__ import annotations

import os
from pathlib import Path

import pytest

from orbitmq.errors import HeaderError, StoreError
from orbitmq.files import read_generations, replace_file


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
