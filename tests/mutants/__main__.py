"""Break the source in many places, one at a time, and print which of them the unit tests of their room did not notice.

Exit code 1 when a smaller share was noticed than `--reach`, or when an entry of tests/mutants/equivalent fits no mutant.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue

from mutants.rooms import Place, drawn, equivalents, places, unit_tests
from mutants.sandbox import Outcome, Sandbox

BASELINE_LIMIT_S = 600.0
LIMIT_FACTOR = 4
LIMIT_MIN_S = 15.0
"""A run with a mutant may take this long, or LIMIT_FACTOR times as long as without; then it counts as noticed: it hangs."""


@dataclass
class Tally:
    """What was found in one room."""

    noticed: int = 0
    hung: int = 0
    survivors: list[Place] = field(default_factory=list)

    @property
    def run(self) -> int:
        return self.noticed + len(self.survivors)

    @property
    def share(self) -> float:
        return self.noticed / self.run if self.run else 1.0

    def add(self, place: Place, outcome: Outcome) -> None:
        """Count one mutant."""
        if outcome.noticed:
            self.noticed += 1
            self.hung += outcome.code is None
        else:
            self.survivors.append(place)


class Campaign:
    """A sample of mutants, the sandboxes they run in, and what was found so far."""

    def __init__(self, sample: list[Place], folder: Path, seed: int, jobs: int) -> None:
        self.tallies = {place.room: Tally() for place in sample}
        self._sample = sample
        self._boxes = [Sandbox(folder / str(number), seed) for number in range(jobs)]
        self._free: SimpleQueue[Sandbox] = SimpleQueue()
        for box in self._boxes:
            self._free.put(box)
        self._limits_s: dict[str, float] = {}

    def run(self) -> None:
        """Run all mutants.

        Raises:
            RuntimeError: tests fail without any mutant.
        """
        pool = ThreadPoolExecutor(len(self._boxes))
        try:
            for _ in pool.map(self._measure, sorted(self.tallies)):
                pass
            runs = {pool.submit(self._try, place): place for place in self._sample}
            for number, done in enumerate(as_completed(runs), start=1):
                place = runs[done]
                self.tallies[place.room].add(place, done.result())
                self._show(number, place, done.result())
        finally:
            for box in self._boxes:
                box.end()
            pool.shutdown(cancel_futures=True)

    @contextmanager
    def _box(self) -> Iterator[Sandbox]:
        box = self._free.get()
        try:
            yield box
        finally:
            self._free.put(box)

    def _measure(self, room: str) -> None:
        with self._box() as box:
            outcome = box.baseline(unit_tests(room), BASELINE_LIMIT_S)
        if outcome.noticed:
            raise RuntimeError(f"the tests of {room} fail without any mutant:\n{outcome.output}")
        self._limits_s[room] = max(LIMIT_MIN_S, LIMIT_FACTOR * outcome.seconds)
        print(f"{room}: {outcome.seconds:.0f} s without a mutant", file=sys.stderr, flush=True)

    def _try(self, place: Place) -> Outcome:
        with self._box() as box:
            return box.try_mutant(place.module, place.mutant, unit_tests(place.room), self._limits_s[place.room])

    def _show(self, number: int, place: Place, outcome: Outcome) -> None:
        if not outcome.noticed:
            print(f"not noticed: {place}", file=sys.stderr, flush=True)
        elif number % 10 == 0 or sys.stderr.isatty():
            end = "\r" if sys.stderr.isatty() else "\n"
            print(f"{number} of {len(self._sample)} ", end=end, file=sys.stderr, flush=True)


def main() -> int:
    """Draw the sample, run it, print the table and the survivors."""
    options = _options()
    try:
        found = places(options.places)
    except LookupError as error:
        sys.exit(f"mutants: {error}")
    listed = equivalents()
    stale = [] if options.places else [entry for entry in listed if not any(entry.is_of(place) for place in found)]
    open_ = [place for place in found if not any(entry.is_of(place) for entry in listed)]
    sample = drawn(open_, options.sample or len(open_), options.seed)
    print(
        f"seed {options.seed}: {len(sample)} of {len(open_)} mutants; {len(found) - len(open_)} more are listed as equivalent"
    )
    if options.list:
        print(*sample, sep="\n")
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True) as folder:
        campaign = Campaign(sample, Path(folder), options.seed, min(options.jobs, max(1, len(sample))))
        try:
            campaign.run()
        except RuntimeError as error:
            sys.exit(f"mutants: {error}")
        except KeyboardInterrupt:
            _report(campaign.tallies)
            print("interrupted: this is the part that was run")
            return 130
    _report(campaign.tallies)
    for entry in stale:
        print(
            f"tests/mutants/equivalent lists what is no longer there: {entry.module} {entry.function}: {entry.before}"
        )
    noticed, run = (
        sum(figures) for figures in zip(*((t.noticed, t.run) for t in campaign.tallies.values()), strict=True)
    )
    print(
        f"\n{noticed} of {run} mutants noticed ({noticed / max(1, run):.0%}, asked {options.reach:.0%}), seed {options.seed}; "
        f"{len(stale)} stale entries in the list of equivalent ones"
    )
    return int(bool(stale) or noticed < options.reach * run)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "places", nargs="*", metavar="PLACE",
        help="rooms (net), packages (net/connection), modules (wire/frame.py) or lines (wire/frame.py:80) of src/orbitmq;\n"
        "'top' is the modules in no package; everything when left out",
    )  # fmt: skip
    parser.add_argument("--sample", type=int, default=200, help="how many mutants are drawn; 0 means all")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="repeats the draw of an earlier run")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 1, help="how many run at the same time")
    parser.add_argument("--reach", type=float, default=0.9, help="the share that has to be noticed")
    parser.add_argument("--list", action="store_true", help="print the mutants, run nothing")
    return parser.parse_args()


def _report(tallies: dict[str, Tally]) -> None:
    print(f"\n{'room':<12}{'mutants':>9}{'noticed':>9}{'share':>8}   of these by a hang")
    both = Tally(noticed=sum(t.noticed for t in tallies.values()), hung=sum(t.hung for t in tallies.values()))
    both.survivors = [place for room in sorted(tallies) for place in tallies[room].survivors]
    for name, tally in [*sorted(tallies.items()), ("all", both)]:
        print(f"{name:<12}{tally.run:>9}{tally.noticed:>9}{tally.share:>8.0%}{tally.hung:>5}")
    if both.survivors:
        print("\nnot noticed:")
        for place in both.survivors:
            print(place)


if __name__ == "__main__":
    sys.exit(main())
