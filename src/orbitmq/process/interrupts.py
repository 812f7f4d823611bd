"""SIGTERM as a Ctrl-C: the program leaves through every `finally`, in event loops too."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def termination_as_interrupt() -> Iterator[None]:
    """Let SIGTERM do what Ctrl-C does, whatever handles that at the moment; for the main thread alone."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        signal.raise_signal(signal.SIGINT)

    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
