"""`orbitmq top`: a live screen of brokers, topics by rate and groups by lag."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orbitmq.cli.access import Access
from orbitmq.cli.terminal.options import FormatOption, check_number
from orbitmq.cli.terminal.output import Format, Row, format_cell, format_plain, show_json
from orbitmq.cli.terminal.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from orbitmq.exporter.collection import Collection


class View(StrEnum):
    """What the screen shows first."""

    BROKERS = "brokers"
    TOPICS = "topics"
    GROUPS = "groups"


_KEYS = {"b": View.BROKERS, "t": View.TOPICS, "g": View.GROUPS}
_HELP = "b brokers  t topics  g groups  s sort by the next column  r reverse  q quit"


async def top(
    access: Access,
    view: Annotated[View, typer.Option("--view", help="What is shown first.")] = View.BROKERS,
    interval: Annotated[
        float, typer.Option("--interval", min=0.5, help="Seconds between two looks.", callback=check_number)
    ] = 2,
    once: Annotated[bool, typer.Option("--once", help="Print one screen of all three, and end.")] = False,
    output: FormatOption = Format.TABLE,
) -> None:
    """Watch brokers, topics and groups of any cluster; in a pipe, or with --once, print one screen."""
    import sys

    from orbitmq.exporter.collecting import Collector

    if output is Format.JSON and not once:
        raise typer.BadParameter("a live screen is not JSON: add --once", param_hint="--output")
    async with access.admin() as admin:
        collector = Collector(admin, with_ages=False)
        if once or not (sys.stdout.isatty() and sys.stdin.isatty()):
            _show_once(await collector.collect(), output)
        else:
            await _Screen(collector, view, interval).run()


def _show_once(found: Collection, output: Format) -> None:
    views = {view: _rows(view, None, found) for view in View}
    if output is Format.JSON:
        show_json({view.value: rows for view, (_, rows) in views.items()})
        return
    import sys

    sys.stdout.write("\n".join(format_plain(rows, columns) for columns, rows in views.values()))


def _rows(view: View, before: Collection | None, found: Collection) -> tuple[Sequence[str], list[Row]]:
    """Return the columns and the rows of a view, with names that are safe to print."""
    from orbitmq.exporter import rows

    columns, make = {
        View.BROKERS: (rows.BROKER_COLUMNS, rows.broker_rows),
        View.TOPICS: (rows.TOPIC_COLUMNS, rows.topic_rows),
        View.GROUPS: (rows.GROUP_COLUMNS, rows.group_rows),
    }[view]
    safe = [
        {name: printable(value, is_cell=True) if isinstance(value, str) else value for name, value in row.items()}
        for row in make(before, found)
    ]
    return columns, list(safe)


class _Screen:
    """The live screen: what it shows, and the keys that change it."""

    def __init__(self, collector: Any, view: View, interval_s: float) -> None:
        import asyncio

        self._collector = collector
        self._view = view
        self._interval_s = interval_s
        self._column: int | None = None
        """By which column rows are sorted; None: as they come, the busiest first."""
        self._is_reversed = False
        self._before: Collection | None = None
        self._found: Collection | None = None
        self._problem = ""
        self._changed = asyncio.Event()
        self._is_over = False

    async def run(self) -> None:
        """Show the screen until `q` or Ctrl-C."""
        import asyncio
        import sys
        import termios
        import tty

        from rich.console import Console
        from rich.live import Live

        loop = asyncio.get_running_loop()
        terminal = sys.stdin.fileno()
        settings = termios.tcgetattr(terminal)
        collecting = loop.create_task(self._collect())
        collecting.add_done_callback(
            lambda _: self._changed.set()
        )  # it ends by an error alone, which is not to be hidden
        try:
            tty.setcbreak(terminal)
            loop.add_reader(terminal, self._read_keys, terminal)
            with Live(self._draw(), console=Console(), screen=True, auto_refresh=False) as live:
                while not self._is_over:
                    await self._changed.wait()
                    self._changed.clear()
                    if collecting.done():
                        collecting.result()
                    live.update(self._draw(), refresh=True)
        finally:
            loop.remove_reader(terminal)
            termios.tcsetattr(terminal, termios.TCSADRAIN, settings)
            collecting.cancel()
            await asyncio.gather(collecting, return_exceptions=True)

    async def _collect(self) -> None:
        import asyncio

        from orbitmq.errors import OrbitError

        while True:
            try:
                self._before, self._found = self._found, await self._collector.collect()
                self._problem = ""
            except OrbitError as error:
                self._problem = str(error)
            self._changed.set()
            await asyncio.sleep(self._interval_s)

    def _read_keys(self, terminal: int) -> None:
        import os

        for key in os.read(terminal, 64).decode(errors="replace"):
            self.press(key)
        self._changed.set()

    def press(self, key: str) -> None:
        """Do what a key asks for."""
        if key == "q":
            self._is_over = True
        elif key in _KEYS:
            self._view, self._column, self._is_reversed = _KEYS[key], None, False
        elif key == "s":
            self._column = 0 if self._column is None else self._column + 1
        elif key == "r":
            self._is_reversed = not self._is_reversed

    def _draw(self) -> Any:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        head = Text(self._problem or _HELP, style="bold red" if self._problem else "dim")
        if self._found is None:
            return Group(head, Text("asking the cluster …"))
        columns, rows = _rows(self._view, self._before, self._found)
        rows, sorted_by = sort_rows(rows, columns, self._column, self._is_reversed)
        table = Table(title=f"{self._view.value}{sorted_by}", title_justify="left", box=None, pad_edge=False)
        for column in columns:
            is_number = bool(rows) and all(isinstance(row.get(column), int | float | None) for row in rows)
            table.add_column(column.replace("_", " "), justify="right" if is_number else "left", no_wrap=True)
        for row in rows:
            table.add_row(*(Text(format_cell(row.get(column))) for column in columns))
        return Group(head, table)


def sort_rows(
    rows: Sequence[Row], columns: Sequence[str], column: int | None, is_reversed: bool
) -> tuple[list[Row], str]:
    """Return rows in the order of a column, numbers from the largest on, and what the screen says of the order."""
    if column is None:
        return (list(rows[::-1]), ", reversed") if is_reversed else (list(rows), "")
    name = columns[column % len(columns)]
    has_numbers = any(isinstance(row[name], int | float) for row in rows)
    known = sorted(
        (row for row in rows if row[name] is not None), key=lambda row: row[name], reverse=has_numbers != is_reversed
    )
    return known + [row for row in rows if row[name] is None], f" by {name}{', reversed' if is_reversed else ''}"
