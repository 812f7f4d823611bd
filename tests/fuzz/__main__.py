"""The long form of S1: `python -m fuzz --count 10000000`, run from the folder `tests` or by `make hostile`.

Prints the rate, the slowest input and the growth of memory of each decoder; ends with exit code 1 at the first failure.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from random import Random

from fuzz.mutation import mutate
from fuzz.targets import TARGETS

_REPORT_EVERY_S = 5.0


def main() -> int:
    """Fuzz every decoder in turn."""
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--count", type=int, default=1_000_000, help="inputs in all")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--only", choices=sorted(TARGETS))
    options = parser.parse_args()
    names = [options.only] if options.only else list(TARGETS)
    print(f"seed {options.seed}, {options.count} inputs", flush=True)
    return max(_fuzz(name, options.count // len(names), options.seed) for name in names)


def _fuzz(name: str, count: int, seed: int) -> int:
    target, random = TARGETS[name], Random(f"{seed}-{name}")
    started = reported = time.perf_counter()
    memory_before = _memory()
    slowest, slowest_input = 0.0, b""
    for number in range(count):
        data = mutate(random.choice(target.seeds), target.seeds, random)
        began = time.process_time()
        try:
            target.decode(data)
        except Exception as error:
            print(f"{name}: input {number} of seed {seed} raised {error!r}\n{data!r}", file=sys.stderr)
            return 1
        taken = time.process_time() - began
        if taken > slowest:
            slowest, slowest_input = taken, data
        now = time.perf_counter()
        if now - reported > _REPORT_EVERY_S:
            reported = now
            print(f"{name}: {number + 1} of {count}", flush=True)
    rate = count / max(time.perf_counter() - started, 1e-9)
    growth = (_memory() - memory_before) / 1024
    print(
        f"{name}: {count} inputs, {rate:,.0f}/s, slowest {slowest * 1000:.1f} ms of CPU ({len(slowest_input)} bytes), "
        f"memory +{growth:.1f} MiB, no failure",
        flush=True,
    )
    return 0


def _memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    sys.exit(main())
