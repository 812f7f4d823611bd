"""Processor time of a piece of work: of this process with all below it, and of all others meanwhile."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import psutil

SAMPLE_EVERY_S = 0.1


class Usage(NamedTuple):
    """What a piece of work took: seconds, seconds of processors, and how many cores others used meanwhile."""

    seconds: float
    cpu_s: float
    others: float


def usage_of(work: Callable[[], object]) -> Usage:
    """Return what `work` took."""
    tree = ProcessTree()
    began, busy, own = time.perf_counter(), _busy_seconds(), tree.seconds()
    with _sampled(tree):
        work()
    seconds = time.perf_counter() - began
    cpu_s = tree.seconds() - own
    return Usage(seconds, cpu_s, max(0.0, (_busy_seconds() - busy - cpu_s) / seconds))


def _busy_seconds() -> float:
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system + times.irq + times.softirq)


@contextmanager
def _sampled(tree: ProcessTree) -> Iterator[None]:
    """Look at the tree every now and then, so that little is missed of the processes that end meanwhile."""
    ended = threading.Event()

    def sample() -> None:
        while not ended.wait(SAMPLE_EVERY_S):
            tree.sample()

    thread = threading.Thread(target=sample, name="usage", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@dataclass
class _Times:
    """Seconds of one process as they were last seen.

    `reaped` is the time of the children it waited for, `reaped_before` what that was when it was first seen.
    """

    parent: int
    own: float
    reaped: float
    reaped_before: float


class ProcessTree:
    """Processor time of this process and all below it: broker, JVM and Python workers.

    Linux adds the time of a process that ends to its parent's only if the parent waits for it. `pyspark.daemon` ignores
    SIGCHLD instead, so the time of Spark's Python workers is lost: what the last sample saw counts for them.
    """

    def __init__(self) -> None:
        self._me = psutil.Process()
        self._seen: dict[psutil.Process, _Times] = {}
        self._living: set[psutil.Process] = set()

    def seconds(self) -> float:
        """Return the seconds of all processes, those that have ended since the first sample included."""
        self.sample()
        children: dict[int, list[psutil.Process]] = {}
        for process, times in self._seen.items():
            if process != self._me:
                children.setdefault(times.parent, []).append(process)

        def total(process: psutil.Process) -> float:
            times, living, ended = self._seen[process], 0.0, 0.0
            for child in children.pop(process.pid, ()):
                if child in self._living:
                    living += total(child)
                else:
                    ended += total(child)
            return times.own + living + max(times.reaped, times.reaped_before + ended)

        return total(self._me)

    def sample(self) -> None:
        """Note the time of each process."""
        living = set()
        for process in (self._me, *self._me.children(recursive=True)):
            with contextlib.suppress(psutil.Error), process.oneshot():
                times, parent = process.cpu_times(), process.ppid()
                reaped = times.children_user + times.children_system
                before = self._seen.get(process)
                reaped_before = reaped if before is None else before.reaped_before
                self._seen[process] = _Times(parent, times.user + times.system, reaped, reaped_before)
                living.add(process)
        self._living = living
