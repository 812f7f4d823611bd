"""The output of commands: tables on a terminal, plain columns in a pipe, JSON for programs."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from orbitmq.cli.terminal.printable import printable, printable_json

if TYPE_CHECKING:
    from rich.table import Table

Row = Mapping[str, Any]

_NOTHING = "-"


class Format(StrEnum):
    """How results are printed."""

    TABLE = "table"
    JSON = "json"


def show_rows(rows: Sequence[Row], columns: Sequence[str], form: Format) -> None:
    """Print rows under their columns; as JSON a list of objects that hold every field, columns or not."""
    if form is Format.JSON:
        show_json(list(rows))
    elif sys.stdout.isatty():
        from rich.console import Console

        Console(highlight=False, markup=False).print(make_table(rows, columns))
    else:
        sys.stdout.write(format_plain(rows, columns))


def show_json(value: Any, *, is_line: bool = False) -> None:
    """Print one JSON document: indented on a terminal, on one line in pipes and where lines are the format."""
    import orjson

    option = orjson.OPT_NON_STR_KEYS | orjson.OPT_APPEND_NEWLINE
    if not is_line and sys.stdout.isatty():
        option |= orjson.OPT_INDENT_2
    sys.stdout.write(printable_json(orjson.dumps(value, option=option)).decode())
    sys.stdout.flush()


def say(text: str) -> None:
    """Print a line on stderr, where it does not disturb what a pipe reads."""
    print(text, file=sys.stderr)


def format_plain(rows: Sequence[Row], columns: Sequence[str]) -> str:
    """Return rows as left-aligned columns under a header line, two blanks apart; nothing is ever cut short."""
    lines = [[column.upper() for column in columns]]
    lines += [[format_cell(row.get(column)) for column in columns] for row in rows]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    return "".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() + "\n" for line in lines
    )


def format_cell(value: Any) -> str:
    """Return one value as text that a terminal does not obey; None and empty text become a dash."""
    if value is None or value == "":
        return _NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    return printable(str(value))


def format_time(time_ms: int | None) -> str | None:
    """Return milliseconds since 1970 as ISO 8601 in UTC; None for an unknown time."""
    if time_ms is None or time_ms <= 0:
        return None
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def make_table(rows: Sequence[Row], columns: Sequence[str]) -> Table:
    """Return rows under their columns, for a terminal; numbers are at the right."""
    from rich.table import Table

    table = Table(header_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        is_number = bool(rows) and all(isinstance(row.get(column), int | float) for row in rows)
        table.add_column(column.replace("_", " "), justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(format_cell(row.get(column)) for column in columns))
    return table
