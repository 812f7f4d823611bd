"""Python's garbage collector in a server: a full collection looks at what is new, not at every table again and again.

A full collection visits every object that it knows while nothing else runs: with the tables of 100,000 groups a few hundred
milliseconds, as often as there is a quarter more of them. Nearly nothing of it is ever found to be garbage, since the
reference counts have freed that already.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

SLOW_S = 0.01
"""What survives a full collection that took longer is passed over by all later ones."""
_FULL = 2


@contextmanager
def short_collections() -> Iterator[None]:
    """Keep full collections short while a server runs, for which its tables are passed over from the start.

    What is passed over is freed as ever when nothing refers to it any more; only circles of references in it stay, until the
    end of this context.
    """
    began = 0.0

    def watch(phase: str, info: dict[str, int]) -> None:
        nonlocal began
        if phase == "start":
            began = perf_counter()
        elif info["generation"] == _FULL and perf_counter() - began > SLOW_S:
            gc.freeze()

    gc.freeze()
    gc.callbacks.append(watch)
    try:
        yield
    finally:
        gc.callbacks.remove(watch)
        gc.unfreeze()
