"""The same random administrative commands to a Java 5.3.3 broker and to ours; every answer is compared.

    make proof ARGS="--only compat/admin -- --commands 1000000 --seed 7 --tally /var/tmp/compat-admin.json"

Commands come in scenarios of some hundred, each on topics, groups and users of its own; a scenario in which something
differs is shrunk to the few commands that it takes. `--scenario` tells one scenario again. A fifth of the commands goes to
brokers that ask for users. Brokers are started again after every `--fresh` commands, so that a run may go on for hours.
With `--tally FILE` it goes on where the last one of that file ended, and counts the commands of both. A scenario in which a
broker falls silent is told again to fresh brokers: it counts as a difference when one of those falls silent, too.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from compat.admin.pair import RULES, guarded_brokers, open_brokers
from compat.admin.reasons import REASONS
from compat.admin.scenarios import GuardedScenario, Scenario
from compat.broker.comparison import Comparison, Found, Told
from compat.broker.reasons import REASONS as OF_ALL_COMMANDS
from compat.broker.sides import Side, Silence
from compat.broker.tally import Tally
from interop.peers import why_unavailable

STORIES_PER_SEED = 1_000_000
SHOWN_MAX = 12


class Kind(NamedTuple):
    """Scenarios of one kind, and the brokers that they are told to."""

    brokers: Callable[[Path], AbstractContextManager[tuple[Side, Side]]]
    scenario: Callable[[int], Told]


OPEN, GUARDED = Kind(open_brokers, Scenario), Kind(guarded_brokers, GuardedScenario)
SHARES = {"both": {OPEN: 0.8, GUARDED: 0.2}, "open": {OPEN: 1.0}, "guarded": {GUARDED: 1.0}}
"""How much of the commands each kind of brokers gets."""


@dataclass
class Run:
    """What was told so far, by whichever brokers.

    Args:
        commands: how many are told in all.
        differences_max: after so many kinds of difference it is over.
        path: where the tally is kept, after each scenario.
    """

    commands: int
    differences_max: int
    tally: Tally
    path: Path | None = None

    @property
    def told(self) -> int:
        return self.tally.counts.total()

    @property
    def is_over(self) -> bool:
        return self.told >= self.commands or len(self.tally.differences) >= self.differences_max

    def tell(self, kind: Kind, commands: int) -> Iterator[Found | None]:
        """Start brokers, and tell them scenarios until they got so many commands; yields after each what was found.

        A broker that is stuck ends it: fresh brokers are told the same scenario again.
        """
        with tempfile.TemporaryDirectory() as folder, kind.brokers(Path(folder)) as (java, ours):
            comparison = Comparison(java, ours, self.tally, RULES)
            end = min(self.commands, self.told + commands)
            while self.told < end and not self.is_over:
                scenario = kind.scenario(self.tally.next_scenario)
                self.tally.next_scenario += 1
                self.tally.scenarios += 1
                began = time.monotonic()
                try:
                    found = comparison.compare(scenario)
                except Silence as silence:
                    self.tally.note_silence(scenario.seed, silence)
                    end, found = 0, None
                self.tally.seconds += time.monotonic() - began
                self.tally.write(self.path)
                yield found


def main() -> None:
    """Compare and print what was done; exit code 1 when there is a difference that is not listed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--commands", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scenario", type=int, help="begin with this scenario, whatever the seed")
    parser.add_argument("--fresh", type=int, default=20_000, help="new brokers after so many commands")
    parser.add_argument("--brokers", choices=SHARES, default="both", help="with users, without, or both")
    parser.add_argument("--differences", type=int, default=SHOWN_MAX, help="stop after so many kinds of difference")
    parser.add_argument("--tally", type=Path, help="go on behind the last run that was counted in this file")
    options = parser.parse_args()
    if (reason := why_unavailable()) is not None:
        sys.exit(reason)
    first = options.seed * STORIES_PER_SEED if options.scenario is None else options.scenario
    run = Run(options.commands, options.differences, Tally.read(options.tally, first), options.tally)
    shares = SHARES[options.brokers]
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns) as progress:
        task = progress.add_task("commands", total=options.commands)
        while not run.is_over:
            fresh = min(options.fresh, options.commands - run.told)
            for kind, share in shares.items():
                for found in run.tell(kind, max(1, int(fresh * share))):
                    progress.update(task, completed=run.told)
                    if found is not None:
                        progress.console.print(str(found), markup=False, highlight=False, soft_wrap=True)
    run.tally.report(reason.name for reason in (*REASONS, *OF_ALL_COMMANDS))
    sys.exit(1 if run.tally.differences else 0)


if __name__ == "__main__":
    main()
