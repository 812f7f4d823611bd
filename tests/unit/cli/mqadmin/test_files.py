"""Names of files that subcommands write."""

from __future__ import annotations

from pathlib import Path

from cases import each_case
from orbitmq.cli.mqadmin.files import file_name, write_file


@each_case(
    ("10.0.0.1@7#9", "10.0.0.1@7#9"),
    ("../../etc/x", "_.._etc_x"),
    ("..", "_"),
    ("", "_"),
    ("a\nb", "a_b"),
    ("\\x", "_x"),
)
def test_a_file_lies_in_its_directory_whatever_its_name_is_made_of(text: str, name: str) -> None:
    assert file_name(text) == name


def test_a_file_is_written_with_its_directories(tmp_path: Path) -> None:
    write_file(tmp_path / "a" / "b", b"x")
    assert (tmp_path / "a" / "b").read_bytes() == b"x"
