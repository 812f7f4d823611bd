"""SIGTERM as a Ctrl-C for commands: they finish what is under way, and store how far they came."""

from __future__ import annotations

import signal
import threading
from contextlib import AbstractContextManager, nullcontext

from orbitmq.process.interrupts import termination_as_interrupt


def finishing_on_termination() -> AbstractContextManager[None]:
    """Let SIGTERM do what Ctrl-C does at the moment; servers, which have a way of their own, replace this.

    Does nothing in other threads than the main one, or where SIGTERM is handled already.
    """
    is_ours = threading.current_thread() is threading.main_thread()
    if is_ours and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        return termination_as_interrupt()
    return nullcontext()
