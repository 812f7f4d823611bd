"""A table of cases in one test: pure cases take microseconds, a test of its own for each takes milliseconds."""

from __future__ import annotations

import functools
import inspect
import reprlib
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest

_SHOWN = reprlib.Repr()
_SHOWN.maxstring = _SHOWN.maxother = 80


class _Failures(list[BaseException]):
    """The errors of the rows that failed; raised together at the end."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self._rows = rows

    @contextmanager
    def of(self, row: Any) -> Iterator[None]:
        """Keep the error of a row."""
        try:
            yield
        except (Exception, pytest.fail.Exception) as error:
            error.add_note(f"case: {_SHOWN.repr(row)}")
            self.append(error)

    def raise_all(self) -> None:
        if self:
            raise BaseExceptionGroup(f"{len(self)} of {self._rows} cases fail", self)


def each_case(*rows: Any) -> Callable[[Callable[..., object]], Callable[..., Any]]:
    """Run a test, which may be async, for each row, and report all rows that fail.

    Args:
        rows: tuples of a test's first arguments, or the one argument; further ones are fixtures, which all rows share.
    """
    assert rows, "a table without cases shows nothing"

    def decorate(test: Callable[..., object]) -> Callable[..., None]:
        parameters = list(inspect.signature(test).parameters.values())
        is_single = len(parameters) == 1 or not isinstance(rows[0], tuple)

        def arguments(row: Any) -> tuple[Any, ...]:
            return (row,) if is_single else row

        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            failures = _Failures(len(rows))
            for row in rows:
                with failures.of(row):
                    test(*arguments(row), **fixtures)
            failures.raise_all()

        @functools.wraps(test)
        async def run_async(**fixtures: Any) -> None:
            failures = _Failures(len(rows))
            for row in rows:
                with failures.of(row):
                    await cast(Awaitable[object], test(*arguments(row), **fixtures))
            failures.raise_all()

        shown: Callable[..., Any] = run_async if inspect.iscoroutinefunction(test) else run
        shown.__signature__ = inspect.Signature(parameters[1 if is_single else len(rows[0]) :])  # type: ignore[attr-defined]
        return shown

    return decorate
