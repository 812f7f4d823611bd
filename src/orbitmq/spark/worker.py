"""Python's garbage collector in a worker of Spark.

Spark collects garbage behind every task. Most of what the collector then looks at are the modules that are loaded: 40 ms of
processor time, which is more than a small micro-batch needs for everything else.
"""

from __future__ import annotations

import gc
from functools import cache

from pyspark import TaskContext


def spare_loaded_modules() -> None:
    """Let the collector pass over what is there now, once for a process that runs tasks."""
    if TaskContext.get() is not None:
        _freeze()


@cache
def _freeze() -> None:
    gc.freeze()
