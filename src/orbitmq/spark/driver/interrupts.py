"""Ctrl-C for jobs: it ends a job early through every `finally`, in event loops too."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def plain_interrupts() -> Iterator[None]:
    """Put Python's own SIGINT handler in place of Spark's.

    asyncio cancels a loop's main task on Ctrl-C only where it finds that one; any other raises in the middle of the loop.
    """
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
