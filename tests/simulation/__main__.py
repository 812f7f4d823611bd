"""Lives of whole clusters: `make proof ARGS="--only simulation/cluster -- --seeds 10000"`; `--seed 7 --trace` plays one again."""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import traceback
from time import perf_counter

from simulation.cluster import live
from simulation.mutants import MUTANTS, first_seed_that_finds


def main() -> int:
    """Run what was asked for; return 1 when a claim does not hold."""
    parser = argparse.ArgumentParser(prog="simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="how many lives")
    parser.add_argument("--first", type=int, default=0, help="seed of the first")
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument("--trace", action="store_true", help="print all that happens in it")
    parser.add_argument("--mutants", action="store_true", help="plant each error and say which seed finds it")
    arguments = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets is part of a life
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], os.environ | {"PYTHONHASHSEED": "0"})
    if arguments.mutants:
        return _find_mutants(arguments.seeds)
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    return _run([arguments.seed] if arguments.seed is not None else seeds, arguments.trace)


def _find_mutants(seeds_max: int) -> int:
    found = {mutant.name: first_seed_that_finds(mutant, seeds_max) for mutant in MUTANTS}
    for name, seed in found.items():
        print(f"{name}: {'NOT FOUND' if seed is None else f'seed {seed}'}")
    return 1 if None in found.values() else 0


def _run(seeds: range | list[int], keeps_trace: bool) -> int:
    began_at, failed, sent, consumed, digest = perf_counter(), 0, 0, 0, hashlib.blake2b(digest_size=16)
    for seed in seeds:
        try:
            life, world = live(seed, keeps_trace=keeps_trace)
        except Exception:
            failed += 1
            print(f"seed {seed}: {traceback.format_exc()}", flush=True)
        else:
            sent += len(life.ledger.acknowledged)
            consumed += len(life.ledger.consumed)
            digest.update(world.digest.encode())
            if keeps_trace:
                print("\n".join(world.trace_lines or ()))
                print(f"seed {seed}: {life.weather}, {life.ledger.failures}")
    took = perf_counter() - began_at
    print(f"{len(seeds)} lives, {failed} failed, {sent} acknowledged, {consumed} consumed; {digest.hexdigest()}")
    print(f"took {took:.1f} s", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
