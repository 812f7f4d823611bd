"""Python's garbage collector in a server: full collections that are short, since they look at what is new alone.

A full collection visits every object that it knows while nothing else runs: with the tables of 100,000 groups a few hundred
milliseconds, as often as there is a quarter more of them. Nearly nothing of it is ever found to be garbage, since the
reference counts have freed that already. So here full collections come often, and what has survived enough of them that one
takes long is passed over from then on.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

SLOW_S = 0.01
"""What survives a full collection that took longer is passed over by all later ones."""
EVERY_S = 0.1
"""How often it is looked whether a full collection is due."""
_NEVER = 1_000_000_000


@contextmanager
def short_collections(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Keep full collections short while a server runs; what is there at the start is passed over.

    What is passed over is freed as usual when nothing refers to it any more; only circles of references in it stay, until the
    end of this context.
    """
    first, second, due_count = gc.get_threshold()
    timers: list[asyncio.TimerHandle] = []

    def look() -> None:
        if gc.get_count()[2] > due_count:
            began = perf_counter()
            gc.collect()
            if perf_counter() - began > SLOW_S:
                gc.freeze()
        timers[:] = [loop.call_later(EVERY_S, look)]

    gc.freeze()
    gc.set_threshold(first, second, _NEVER)
    timers.append(loop.call_later(EVERY_S, look))
    try:
        yield
    finally:
        timers[0].cancel()
        gc.set_threshold(first, second, due_count)
        gc.unfreeze()
