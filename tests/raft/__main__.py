"""The long form of the simulation: `make proof ARGS="--only simulation/raft -- --seeds 10000"`; `--seed 7 --trace` replays one life."""

from __future__ import annotations

import argparse
import sys
from time import perf_counter

from raft.checker import Violation
from raft.mutants import MUTANTS, first_seed_that_finds
from raft.simulation import Life, live


def main() -> int:
    """Run what was asked for; return 1 when a claim does not hold."""
    parser = argparse.ArgumentParser(prog="raft", description=__doc__)
    parser.add_argument("--seeds", type=int, default=2_000, help="how many lives")
    parser.add_argument("--first", type=int, default=0, help="seed of the first")
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument("--trace", action="store_true", help="print all that happens in it")
    parser.add_argument("--mutants", action="store_true", help="plant each error and say which seed finds it")
    arguments = parser.parse_args()
    if arguments.mutants:
        return _find_mutants(arguments.seeds)
    if arguments.seed is not None:
        return _replay(arguments.seed, arguments.trace)
    return _run(range(arguments.first, arguments.first + arguments.seeds))


def _run(seeds: range) -> int:
    began_at = perf_counter()
    steps = elections = committed = violations = 0
    for seed in seeds:
        try:
            life = live(seed)
        except Violation as violation:
            print(violation, flush=True)
            violations += 1
        else:
            steps += life.events
            elections += life.checker.elections
            committed += life.checker.last_committed
    seconds = perf_counter() - began_at
    print(
        f"{len(seeds)} seeds, {steps} steps, {elections} elections, {committed} committed entries, "
        f"{violations} violations, {len(seeds) / seconds:.1f} seeds/s"
    )
    return 1 if violations else 0


def _replay(seed: int, is_traced: bool) -> int:
    life = Life(seed)
    life.trace = [] if is_traced else None
    violation = None
    try:
        life.run()
    except Violation as error:
        violation = error
    print(life.weather, *(life.trace or ()), violation or "all claims hold", sep="\n")
    return 1 if violation else 0


def _find_mutants(seeds: int) -> int:
    is_all = True
    for mutant in MUTANTS:
        violation = first_seed_that_finds(mutant, seeds)
        is_all = is_all and violation is not None
        print(f"{mutant.name}: {violation or 'NOT FOUND'}", flush=True)
    return 0 if is_all else 1


if __name__ == "__main__":
    sys.exit(main())
