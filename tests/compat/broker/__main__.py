"""The same random commands to a Java 5.3.3 broker and to ours; every answer is compared.

    make proof ARGS="--only compat/broker -- --commands 2000 --seed 7"

Commands come in scenarios of some ninety, each on topics and groups of its own; a scenario in which something differs is
shrunk to the few commands that it takes. `--scenario` tells one scenario again. A scenario in which a broker falls silent is told
once more, to a fresh pair: it counts as a difference when that pair falls silent, too.

A pair of brokers hears so many scenarios and is replaced by a fresh one before the first delayed message can arrive. So a
run may last for hours. With `--tally FILE` it goes on where the last one of that file ended, and counts the commands of
both.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from compat.broker.comparison import Comparison
from compat.broker.pair import both_brokers
from compat.broker.reasons import REASONS
from compat.broker.scenarios import Scenario
from compat.broker.sides import Silence
from compat.broker.tally import Tally
from interop.peers import why_unavailable

STORIES_PER_SEED = 1_000_000
SHOWN_MAX = 12
STORIES_PER_PAIR = 250
PAIR_LIFE_S = 15 * 60
"""Nothing that a scenario delays, or makes invisible, comes sooner than 20 minutes later. What arrives would be compared at
another moment on each side."""


def main() -> None:
    """Compare and print what was done; exit code 1 when there is a difference that is not listed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--commands", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scenario", type=int, help="begin with this scenario, whatever the seed")
    parser.add_argument("--differences", type=int, default=SHOWN_MAX, help="stop after so many kinds of difference")
    parser.add_argument("--scenarios-per-pair", type=int, default=STORIES_PER_PAIR)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no scenario after so many")
    parser.add_argument("--tally", type=Path, help="go on behind the last run that was counted in this file")
    options = parser.parse_args()
    if (reason := why_unavailable()) is not None:
        sys.exit(reason)
    first = options.seed * STORIES_PER_SEED if options.scenario is None else options.scenario
    tally = Tally.read(options.tally, first)
    tell(tally, options, time.monotonic())
    tally.report(reason.name for reason in REASONS)
    sys.exit(1 if tally.differences else 0)


def tell(tally: Tally, options: argparse.Namespace, started: float) -> None:
    """Tell scenarios, to one pair of brokers after another, until there were enough commands or too many differences."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    seconds_before = tally.seconds

    def is_enough() -> bool:
        seconds = time.monotonic() - started
        tally.seconds = seconds_before + seconds
        full = tally.counts.total() >= options.commands or len(tally.differences) >= options.differences
        return full or seconds >= options.minutes * 60

    with Progress(*columns) as progress:
        task = progress.add_task("commands", total=options.commands)
        while not is_enough():
            with tempfile.TemporaryDirectory() as folder, both_brokers(Path(folder)) as (java, ours):
                comparison = Comparison(java, ours, tally)
                fresh = time.monotonic()
                for _ in range(options.scenarios_per_pair):
                    scenario = Scenario(tally.next_scenario)
                    tally.next_scenario += 1
                    tally.scenarios += 1
                    try:
                        found = comparison.compare(scenario)
                    except Silence as silence:  # a broker that is stuck tells nothing more: a fresh pair goes on
                        tally.note_silence(scenario.seed, silence)
                        tally.write(options.tally)
                        break
                    progress.update(task, completed=tally.counts.total())
                    if found is not None:
                        progress.console.print(str(found), markup=False, highlight=False, soft_wrap=True)
                    is_last = is_enough()
                    tally.write(options.tally)
                    if is_last or time.monotonic() - fresh > PAIR_LIFE_S:
                        break


if __name__ == "__main__":
    main()
