"""The progress of long work: a bar on a terminal; over bytes, a line now and then elsewhere. All on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from orbitmq.cli.terminal.output import say

_LINE_EVERY_S = 10.0
_MIB = 1 << 20
_COUNT_STEP = 100


class ProgressBar:
    """Work on so many bytes.

    Args:
        what: stands before the figures.
        show: draws the bar: bytes done, bytes in all; None: lines are written.
    """

    def __init__(
        self,
        what: str,
        show: Callable[[int, int], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.total = 0
        self._what = what
        self._show = show
        self._clock = clock
        self._done = 0
        self._shown = 0
        self._line_at = clock() + _LINE_EVERY_S

    def expect(self, total: int) -> None:
        """Take note of how many bytes there are."""
        self.total = total

    def advance(self, size: int) -> None:
        """So many more bytes are done."""
        self._done += size
        if self._done - self._shown < _MIB:
            return
        self._shown = self._done
        if self._show is not None:
            self._show(self._done, self.total)
        elif self._clock() >= self._line_at:
            self._line_at = self._clock() + _LINE_EVERY_S
            say(f"{self._what}: {self._done // _MIB} of {self.total // _MIB} MiB")


@contextmanager
def show_progress(what: str) -> Iterator[ProgressBar]:
    """Show the progress of work; the bar is taken away at its end, however it ends."""
    if not sys.stderr.isatty():
        yield ProgressBar(what)
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(binary_units=True), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield ProgressBar(what, lambda done, total: bar.update(task, completed=done, total=max(done, total)))


@contextmanager
def show_counts(what: str) -> Iterator[Callable[[int, int], None]]:
    """Give a function that shows how many of how many are done; on a terminal alone, the bar is taken away at the end."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        shown = 0

        def show(done: int, total: int) -> None:
            nonlocal shown
            if done - shown >= _COUNT_STEP or done >= total:  # the bar costs more than a message
                shown = done
                bar.update(task, completed=done, total=max(done, total))

        yield show
