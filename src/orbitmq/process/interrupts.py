"""SIGTERM as a Ctrl-C: the program leaves through every `finally`, in event loops too."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import FrameType


def finishing_on_termination() -> AbstractContextManager[None]:
    """Let SIGTERM do what Ctrl-C does at the moment; servers, which have a way of their own, replace this.

    Does nothing in other threads than the main one, or where SIGTERM is handled already.
    """
    is_ours = threading.current_thread() is threading.main_thread()
    if is_ours and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        return termination_as_interrupt()
    return nullcontext()


@contextmanager
def termination_as_interrupt() -> Iterator[None]:
    """Let SIGTERM do what Ctrl-C does, whatever handles that at the moment; for the main thread alone.

    The background of a script ignores Ctrl-C, and would ignore SIGTERM so: there, both interrupt.
    """

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        signal.raise_signal(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
        if before is signal.SIG_IGN:
            signal.signal(signal.SIGINT, before)
