"""The output of a job: bars and tables on a terminal, plain lines everywhere else."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

Advance = Callable[[str, int], None]
_LINE_SECONDS = 2.0


class Screen:
    """Writes to a stream. What brokers and messages say is shown as it is: rich's markup in it means nothing.

    Args:
        stream: None: standard output.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._console = Console(file=stream or sys.stdout, highlight=False, markup=False, emoji=False)
        self._began = time.monotonic()

    def step(self, text: str) -> None:
        """Say what happens now."""
        time_s = f"{time.monotonic() - self._began:6.1f} s"
        self._console.print(Text.assemble((time_s, "dim"), f"  {text}"), soft_wrap=True)

    @contextmanager
    def progress(self, totals: Mapping[str, int]) -> Iterator[Advance]:
        """Show how far several things have come; yields `advance(name, done)`."""
        if not self._console.is_terminal:
            yield self._lines(totals)
            return
        columns = (TextColumn("{task.description:>10}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=self._console) as bars:
            tasks = {name: bars.add_task(name, total=total) for name, total in totals.items()}
            yield lambda name, done: bars.update(tasks[name], completed=done)

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Show a table; all columns but the first are numbers."""
        table = Table(title=title)
        for index, column in enumerate(columns):
            table.add_column(column, justify="right" if index else "left")
        for row in rows:
            table.add_row(*(f"{value:,.1f}" if isinstance(value, float) else str(value) for value in row))
        self._console.print(table)

    def _lines(self, totals: Mapping[str, int]) -> Advance:
        shown: dict[str, float] = {}

        def advance(name: str, done: int) -> None:
            now, total = time.monotonic(), totals[name]
            if done >= total > 0 and shown.get(name) != -1:
                shown[name] = -1
                self.step(f"{name}: {done:,} of {total:,}")
            elif done < total and now - shown.get(name, 0.0) >= _LINE_SECONDS:
                shown[name] = now
                self.step(f"{name}: {done:,} of {total:,}")

        return advance
