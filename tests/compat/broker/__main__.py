"""The same random commands to a Java 5.3.3 broker and to ours; every answer is compared.

    make compat-broker ARGS="--commands 100000 --seed 1"

Commands come in stories of some ninety, each on topics and groups of its own; a story in which something differs is
shrunk to the few commands that it takes. `--story` tells one story again.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from itertools import count
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from compat.broker.comparison import Comparison
from compat.broker.pair import both_brokers
from compat.broker.reasons import REASONS
from compat.broker.stories import Story
from interop.peers import why_unavailable

STORIES_PER_SEED = 1_000_000
SHOWN_MAX = 12


def main() -> None:
    """Compare and print what was done; exit code 1 when there is a difference that is not listed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--commands", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--story", type=int, help="begin with this story, whatever the seed")
    parser.add_argument("--differences", type=int, default=SHOWN_MAX, help="stop after so many kinds of difference")
    options = parser.parse_args()
    if (reason := why_unavailable()) is not None:
        sys.exit(reason)
    first = options.seed * STORIES_PER_SEED if options.story is None else options.story
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, both_brokers(Path(folder)) as (java, ours):
        comparison = Comparison(java, ours)
        tell(comparison, first, options.commands, options.differences)
    report(comparison, time.monotonic() - started)
    sys.exit(1 if comparison.found else 0)


def tell(comparison: Comparison, first: int, commands: int, differences_max: int) -> None:
    """Tell stories until there were enough commands, or too many differences."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns) as progress:
        task = progress.add_task("commands", total=commands)
        for seed in count(first):
            found = comparison.compare(Story(seed))
            progress.update(task, completed=comparison.counts.total())
            if found is not None:
                progress.console.print(str(found), markup=False, highlight=False, soft_wrap=True)
            if comparison.counts.total() >= commands or len(comparison.found) >= differences_max:
                return


def report(comparison: Comparison, seconds: float) -> None:
    """Print how many commands of each code were compared, and what differed by intention."""
    print(f"{comparison.counts.total():,} commands to each in {seconds:.0f} s, by code:")
    print("  " + ", ".join(f"{code} {number:,}" for code, number in sorted(comparison.counts.items())))
    print("different by intention, times:")
    for reason in REASONS:
        if comparison.listed[reason.name]:
            print(f"  {comparison.listed[reason.name]:,} {reason.name}: Java: {reason.java}; ours: {reason.ours}")
    print(f"{len(comparison.found)} kinds of difference left")


if __name__ == "__main__":
    main()
