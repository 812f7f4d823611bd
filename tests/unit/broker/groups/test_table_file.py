"""A file that the loop and a thread write."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.broker.groups.table_file import TableFile


def test_an_older_content_never_replaces_a_newer_one(tmp_path: Path) -> None:
    file = TableFile(tmp_path / "table.json")
    older, newer = file.ticket(lambda: b"older"), file.ticket(lambda: b"newer")
    newer.write()
    older.write()
    assert file.path.read_bytes() == b"newer"
    assert (older.is_in_file, newer.is_in_file) == (False, True)


def test_a_content_is_in_its_file_until_a_later_one_is_written(tmp_path: Path) -> None:
    file = TableFile(tmp_path / "table.json")
    first, second = file.ticket(lambda: b"1"), file.ticket(lambda: b"2")
    assert not first.is_in_file
    first.write()
    assert first.is_in_file
    second.write()
    assert (first.is_in_file, second.is_in_file) == (False, True)


def test_a_write_that_the_disk_refuses_is_not_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "table.json").mkdir()
    file = TableFile(tmp_path / "table.json")
    ticket = file.ticket(lambda: b"1")
    with pytest.raises(OSError, match=r".+"):
        ticket.write()
    assert not ticket.is_in_file
