"""Injured inputs for every decoder: `python -m fuzz --count 10000000`, run from the folder `tests`. It is also the row `hostile/injured-inputs` of `make proof`.

Prints the rate, the slowest input and the growth of memory of each decoder; ends with exit code 1 at the first failure.
"""

from __future__ import annotations

import argparse
import sys
import time

from fuzz.campaign import Failed, fuzz
from fuzz.targets import TARGETS


def main() -> int:
    """Fuzz every decoder in turn."""
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--count", type=int, default=1_000_000, help="inputs in all")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--only", choices=sorted(TARGETS))
    options = parser.parse_args()
    names = [options.only] if options.only else list(TARGETS)
    print(f"seed {options.seed}, {options.count} inputs", flush=True)
    try:
        for name in names:
            fuzz(name, options.count // len(names), options.seed)
    except Failed as failure:
        print(failure, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
