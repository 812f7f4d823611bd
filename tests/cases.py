"""A table of cases in one test: pure cases take microseconds, a test of its own for each takes milliseconds."""

from __future__ import annotations

import functools
import inspect
import reprlib
from collections.abc import Callable
from typing import Any

import pytest

_SHOWN = reprlib.Repr()
_SHOWN.maxstring = _SHOWN.maxother = 80


def each_case(*rows: Any) -> Callable[[Callable[..., object]], Callable[..., None]]:
    """Run a test for each row, and report all rows that fail.

    Args:
        rows: tuples of a test's first arguments, or the one argument; further ones are fixtures, which all rows share.
    """
    assert rows, "a table without cases shows nothing"

    def decorate(test: Callable[..., object]) -> Callable[..., None]:
        parameters = list(inspect.signature(test).parameters.values())
        is_single = len(parameters) == 1 or not isinstance(rows[0], tuple)

        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            failures: list[BaseException] = []
            for row in rows:
                try:
                    test(*((row,) if is_single else row), **fixtures)
                except (Exception, pytest.fail.Exception) as error:
                    error.add_note(f"case: {_SHOWN.repr(row)}")
                    failures.append(error)
            if failures:
                raise BaseExceptionGroup(f"{len(failures)} of {len(rows)} cases fail", failures)

        run.__signature__ = inspect.Signature(parameters[1 if is_single else len(rows[0]) :])  # type: ignore[attr-defined]
        return run

    return decorate
