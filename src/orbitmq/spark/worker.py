"""Python's garbage collector and the C library's allocator in a worker of Spark.

Spark collects garbage behind every task. Most of what the collector then looks at are the modules that are loaded: 40 ms of
processor time, which is more than a small micro-batch needs for everything else.

The allocator gives freed megabytes back to the system and takes them again for the next answer of a broker: the system's
zeroing of those pages is more than a third of what a task costs.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from functools import cache

from pyspark import TaskContext

KEPT_SIZE = 64 * 1024 * 1024
"""Freed bytes that a worker's allocator keeps."""
MAPPED_SIZE_MIN = 32 * 1024 * 1024
"""Bytes of an allocation that has pages of its own, given back when it is freed: the most that glibc takes."""

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # glibc's malloc.h


def prepare_worker() -> None:
    """Let the collector pass over what is there now, and the allocator keep memory, once for a process that runs tasks."""
    if TaskContext.get() is not None:
        _prepare()


@cache
def _prepare() -> None:
    gc.freeze()
    set_option = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if set_option is not None:  # glibc alone has it
        set_option(_M_TRIM_THRESHOLD, KEPT_SIZE)
        set_option(_M_MMAP_THRESHOLD, MAPPED_SIZE_MIN)
