"""Measurements of the process and its event loop: memory, garbage collection, lag. Read by metrics and alerts."""

from __future__ import annotations

import asyncio
import gc
import os
import time
from pathlib import Path

from orbitmq.process.histogram import Histogram

LAG_EVERY_MS = 250
"""How often the loop's lag is measured."""
LAG_BOUNDS_S = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)

_CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


class ProcessStats:
    """Measures garbage collection and the event loop's lag, from `start` to `stop`."""

    def __init__(self) -> None:
        self.gc_ms = 0.0
        """Time that collections have taken."""
        self.gc_count = 0
        self.lag = Histogram(LAG_BOUNDS_S)
        """How late the loop ran a timer, in seconds."""
        self.last_lag_ms = 0.0
        self.memory_limit = memory_limit()
        """What this process may use, in bytes."""
        self._gc_began = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to watch."""
        gc.callbacks.append(self._on_gc)
        self._arm(loop)

    def stop(self) -> None:
        """End what `start` began."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            gc.callbacks.remove(self._on_gc)

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        # uvloop's clock stands still during a turn; lag is what the turns before this one have cost.
        due = time.monotonic() + LAG_EVERY_MS / 1000
        self._timer = loop.call_later(LAG_EVERY_MS / 1000, self._measure, loop, due)

    def _measure(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        lag = max(0.0, time.monotonic() - due)
        self.last_lag_ms = lag * 1000
        self.lag.observe(lag)
        self._arm(loop)

    def _on_gc(self, phase: str, _info: dict[str, int]) -> None:
        if phase == "start":
            self._gc_began = time.perf_counter()
        else:
            self.gc_ms += (time.perf_counter() - self._gc_began) * 1000
            self.gc_count += 1


def memory_used() -> int:
    """Return the resident memory of this process in bytes; 0 where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def memory_anonymous() -> int:
    """Return the memory that is this process's alone, in bytes: without the pages of files, which the kernel can take back.

    Where the system does not tell it apart, all resident memory.
    """
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            name, _, value = line.partition(":")
            if name == "RssAnon":
                return int(value.split()[0]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return memory_used()


def memory_limit() -> int:
    """Return what this process may use in bytes: its control group's limit, or the machine's memory; 0 if unknown."""
    try:
        machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 0
    for path in _CGROUP_LIMITS:
        try:
            return min(int(path.read_text()), machine)
        except (OSError, ValueError):  # no such group, or "max"
            continue
    return machine
