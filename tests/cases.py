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


def each_case(*rows: Any) -> Callable[[Callable[..., object]], Callable[[], None]]:
    """Run a test for each row, and report all rows that fail.

    Args:
        rows: the argument of a test with one parameter; tuples of the arguments of a test with several.
    """

    def decorate(test: Callable[..., object]) -> Callable[[], None]:
        is_single = len(inspect.signature(test).parameters) == 1

        @functools.wraps(test)
        def run() -> None:
            failures: list[BaseException] = []
            for row in rows:
                try:
                    test(*((row,) if is_single else row))
                except (Exception, pytest.fail.Exception) as error:
                    error.add_note(f"case: {_SHOWN.repr(row)}")
                    failures.append(error)
            if failures:
                raise BaseExceptionGroup(f"{len(failures)} of {len(rows)} cases fail", failures)
            assert rows, "a table without cases shows nothing"

        run.__signature__ = inspect.Signature()  # type: ignore[attr-defined]
        return run

    return decorate
