"""Lives of groups with a controller: `make proof ARGS="--only simulation/failover -- --seeds 10000"`; `--seed 7` plays one again."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from time import perf_counter

from failover.group import Violation, live
from failover.mutants import MUTANTS, first_seed_that_finds


def main() -> int:
    """Run what was asked for; return 1 when a claim does not hold."""
    parser = argparse.ArgumentParser(prog="failover", description=__doc__)
    parser.add_argument("--seeds", type=int, default=500, help="how many lives")
    parser.add_argument("--first", type=int, default=0, help="seed of the first")
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument("--mutants", action="store_true", help="plant each error and say which seed finds it")
    options = parser.parse_args()
    if options.mutants:
        found = {mutant.name: first_seed_that_finds(mutant, options.seeds) for mutant in MUTANTS}
        for name, seed in found.items():
            print(f"{name}: {'NOT FOUND' if seed is None else f'seed {seed}'}", flush=True)
        return int(None in found.values())
    seeds = [options.seed] if options.seed is not None else range(options.first, options.first + options.seeds)
    counts: Counter[str] = Counter()
    began = perf_counter()
    for number, seed in enumerate(seeds, 1):
        try:
            counts.update(live(seed).counts)
        except Violation as violation:
            print(f"seed {seed}: {violation}")
            return 1
        if number % 50 == 0:
            print(f"{number} lives, {perf_counter() - began:.0f} s", flush=True)
    print(f"{len(seeds)} lives, 0 violations: {', '.join(f'{count} {what}' for what, count in counts.items())}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
