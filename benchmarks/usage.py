"""Processor time of a piece of work: of this process with all below it, and of all others meanwhile."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import NamedTuple

import psutil


class Usage(NamedTuple):
    """What a piece of work took: seconds, seconds of processors, and how many cores others used meanwhile."""

    seconds: float
    cpu_s: float
    others: float


def usage_of(work: Callable[[], object]) -> Usage:
    """Return what `work` took."""
    began, busy, own = time.perf_counter(), _busy_seconds(), _own_seconds()
    work()
    seconds = time.perf_counter() - began
    cpu_s = _own_seconds() - own
    return Usage(seconds, cpu_s, max(0.0, (_busy_seconds() - busy - cpu_s) / seconds))


def _busy_seconds() -> float:
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system + times.irq + times.softirq)


def _own_seconds() -> float:
    """Processor time of this process and all below it: broker, JVM and Python workers."""
    me = psutil.Process()
    total = 0.0
    for process in (me, *me.children(recursive=True)):
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            total += times.user + times.system
    return total
