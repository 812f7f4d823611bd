"""A million requests to a NameServer that remembers and to one that does not: `python -m memory_proof`.

    make proof ARGS="--only nameserver/memory-proof"
    python -m memory_proof --requests 1000000 --seeds 30 --first-seed 1 [--only "ha address,acting master"]

Prints every kind of difference once, with the least stream that shows it; exit code 1 when there is any.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time

from memory_proof.proof import Difference, Proof
from memory_proof.stream import KINDS


def main() -> int:
    """Prove, or print what is wrong."""
    parser = argparse.ArgumentParser(prog="memory_proof", description=__doc__)
    parser.add_argument("--requests", type=int, default=1_000_000, help="in all")
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--only", default="", help=f"kinds of steps beside the usual: {', '.join(KINDS)}, sharing")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    only = frozenset(filter(None, map(str.strip, options.only.split(","))))
    if unknown := only - KINDS.keys() - {"sharing"}:
        parser.error(f"no such kinds: {', '.join(sorted(unknown))}")
    found: dict[tuple[str, ...], tuple[int, Difference]] = {}
    began = time.monotonic()
    with Proof() as proof:
        for seed in range(options.first_seed, options.first_seed + options.seeds):
            differences = list(proof.run(seed, options.requests // options.seeds, only))
            for difference in differences:
                if difference.where not in found:
                    found[difference.where] = seed, proof.shrink(difference)
            count = len(differences)
            print(f"seed {seed}: {f'{count} chapters with differences' if count else 'no difference'}", flush=True)
        total = proof.counts.total()
    for seed, difference in found.values():
        print(f"\nseed {seed}: {difference}")
    print(f"\n{total:,} requests to each in {time.monotonic() - began:.0f} s: {len(found)} kinds of differences")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
