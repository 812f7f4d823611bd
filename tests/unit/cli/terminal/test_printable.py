"""Text that is safe to print."""

from __future__ import annotations

import pytest

from orbitmq.cli.terminal.printable import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text", "plain text"),
        ("über 漢字", "über 漢字"),
        ("\x1b[31m\n\t", r"\x1b[31m\x0a\x09"),
        ("\u202e\U000e0001", r"\u202e\U000e0001"),
        ("\ud800", r"\ud800"),
        (b"ok \xff", r"ok \xff"),
        (memoryview(b"view"), "view"),
    ],
)
def test_whatever_is_not_visible_is_escaped(text: str | bytes | memoryview, shown: str) -> None:
    assert printable(text) == shown


def test_a_cell_is_one_word() -> None:
    assert printable("a b", is_cell=True) == r"a\x20b"
