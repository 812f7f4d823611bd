"""Ctrl-C and SIGTERM for jobs: both end a job early through every `finally`, in event loops too."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def termination_as_interrupt() -> Iterator[None]:
    """Let SIGTERM end the job as Ctrl-C does, whoever handles that at the moment."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        signal.raise_signal(signal.SIGINT)

    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


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
