"""The reference page of mqadmin's subcommands."""

from __future__ import annotations

from pathlib import Path

from orbitmq.cli.mqadmin.reference import reference
from orbitmq.cli.mqadmin.table import SUBCOMMANDS

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "mqadmin.md"


def test_the_page_is_what_the_table_says() -> None:
    assert PAGE.read_text() == reference(), "python -m orbitmq.cli.mqadmin.reference > docs/reference/mqadmin.md"


def test_the_page_has_every_subcommand() -> None:
    text = reference()
    assert [name for name in SUBCOMMANDS if f"| `{name}` |" not in text] == []
