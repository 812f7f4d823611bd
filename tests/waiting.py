"""Waiting in tests: for a condition, never for a time. A wait that a time limit ends names the last value, and since when it was so."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

WAIT_S = 60
"""Ends a wait in vain, and is not a bound."""
PAUSE_S = 0.02
"""Between two polls of a thread."""
TURNS, LONG_WAIT_PAUSE_S = 1000, 0.002
"""After so many turns of the loop a wait without pauses makes such ones: it would take all of a core for as long as it lasts."""
_SHOWN = 2000
"""Characters of a value."""
_sleep = asyncio.sleep
"""Also where a test replaces it to see the pauses of what it tests."""


class _Last:
    """The last value of a condition, and since when it is that."""

    def __init__(self) -> None:
        self._text = ""
        self._since_s = self._began_s = time.monotonic()

    def record(self, value: object) -> None:
        text = repr(value)[:_SHOWN]
        if text != self._text:
            self._text, self._since_s = text, time.monotonic()

    def __str__(self) -> str:
        now_s = time.monotonic()
        return f"after {now_s - self._began_s:.1f} s; for the last {now_s - self._since_s:.1f} s it was {self._text}"


async def until(
    condition: Callable[[], Any],
    pause_s: float = 0,
    *,
    errors: type[Exception] | tuple[type[Exception], ...] = (),
) -> Any:
    """Let the loop run until a condition holds, and return what it was then; the time limit of tests ends a wait in vain.

    Args:
        condition: polled again and again; may return an awaitable.
        pause_s: seconds between two polls; by default one turn of the loop (`TURNS`), so that no value of a counter that goes on is missed.
        errors: count as not yet.
    """
    last, turns = _Last(), itertools.count()
    try:
        while True:
            try:
                found = condition()
                if inspect.isawaitable(found):
                    found = await found
                if found:
                    return found
                last.record(found)
            except errors as error:
                last.record(error)
            await _sleep(pause_s or (LONG_WAIT_PAUSE_S if next(turns) >= TURNS else 0))
    except asyncio.CancelledError as error:
        error.add_note(f"waited in vain: {last}")
        raise


def wait_for(
    condition: Callable[[], T],
    what: str,
    timeout_s: float = WAIT_S,
    *,
    errors: type[Exception] | tuple[type[Exception], ...] = (),
    pause_s: float = PAUSE_S,
) -> T:
    """Wait in this thread until a condition holds, and return what it was then: for other threads and processes.

    Args:
        condition: polled again and again.
        what: is waited for.
        errors: count as not yet: those of a file that another process writes, or of a server that starts.

    Raises:
        AssertionError: the time is over; names the last value or error.
    """
    last, end_s = _Last(), time.monotonic() + timeout_s
    while True:
        try:
            found = condition()
        except errors as error:
            last.record(error)
        else:
            if found:
                return found
            last.record(found)
        if time.monotonic() > end_s:
            raise AssertionError(f"{what}: not {last}")
        time.sleep(pause_s)
