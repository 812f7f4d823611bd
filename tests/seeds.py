"""Seeds of the short forms of the proofs: others each day, printed in a run's first lines, repeated by ORBITMQ_SEED."""

from __future__ import annotations

import os
from datetime import UTC, datetime

VARIABLE = "ORBITMQ_SEED"


def seed_of_the_day() -> int:
    """Return the number of the day, or what the environment says; all processes of a run have the same one."""
    return int(os.environ.setdefault(VARIABLE, str(datetime.now(UTC).toordinal())))


SEED = seed_of_the_day()


def seeds(count: int) -> range:
    """Return so many seeds (at most 1,000) that no other day has."""
    return range(SEED * 1_000, SEED * 1_000 + count)
