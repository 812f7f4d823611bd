"""Many injured inputs for one decoder, all of them from one seed."""

from __future__ import annotations

import time
from random import Random
from typing import NamedTuple

import psutil

from fuzz.mutation import mutate
from fuzz.targets import TARGETS

_REPORT_EVERY_S = 5.0
_LOOK_EVERY = 256


class Failed(Exception):
    """An input that a decoder answered with neither a value nor an error of ours."""


class Outcome(NamedTuple):
    """What a campaign without a failure found."""

    input_count: int
    slowest_ms: float
    """CPU time of the slowest input."""
    memory_added_mb: float


def fuzz(name: str, count: int, seed: int) -> Outcome:
    """Give a decoder `count` injured inputs, and print how far it is.

    Raises:
        Failed: says which input of which seed raised what.
    """
    target, random, process = TARGETS[name], Random(f"{seed}-{name}"), psutil.Process()
    started = reported = time.perf_counter()
    memory_before = memory_most = process.memory_info().rss
    slowest, slowest_input = 0.0, b""
    for number in range(count):
        data = mutate(random.choice(target.seeds), target.seeds, random)
        began = time.process_time()
        try:
            target.decode(data)
        except Exception as error:
            raise Failed(f"{name}: input {number} of seed {seed} raised {error!r}\n{data!r}") from error
        taken = time.process_time() - began
        if taken > slowest:
            slowest, slowest_input = taken, data
        if number % _LOOK_EVERY == 0 and (now := time.perf_counter()) - reported > _REPORT_EVERY_S:
            reported = now
            memory_most = max(memory_most, process.memory_info().rss)
            print(f"{name}: {number + 1:,} of {count:,}", flush=True)
    rate = count / max(time.perf_counter() - started, 1e-9)
    growth = (max(memory_most, process.memory_info().rss) - memory_before) / 2**20
    print(
        f"{name}: {count:,} inputs, {rate:,.0f}/s, slowest {slowest * 1000:.1f} ms of CPU ({len(slowest_input)} bytes), "
        f"memory +{growth:.1f} MiB, no failure",
        flush=True,
    )
    return Outcome(count, slowest * 1000, growth)
