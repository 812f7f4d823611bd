"""Seeds of the short forms of the proofs: the same in each run of a command of make, so that luck fails none; others each day elsewhere.

They are printed in a run's first lines, and repeated by ORBITMQ_SEED.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime

import tiers

VARIABLE = "ORBITMQ_SEED"
REPEATED = 1
EXAMPLES = 20
"""Of each test of hypothesis in `make quick` and `make test`, where the test itself does not say how many."""


def seed_of_the_run() -> int:
    """Return the number of the day, in a command of make `REPEATED`, or what the environment says; the same in all processes of a run."""
    number = REPEATED if tiers.run_name() else datetime.now(UTC).toordinal()
    return int(os.environ.setdefault(VARIABLE, str(number)))


SEED = seed_of_the_run()


def seeds(count: int) -> range:
    """Return so many seeds (at most 1,000) that no other `SEED` has."""
    return range(SEED * 1_000, SEED * 1_000 + count)


def examples(count: int) -> int:
    """Return how many examples a test of hypothesis tries: `count`; in a command of make, which repeats the same ones, an eighth of them."""
    return max(EXAMPLES, count // 8) if tiers.run_name() else count
