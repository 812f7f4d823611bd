"""Short forms of the simulation of failover; the long one is the row `simulation/failover` of the proof."""

from __future__ import annotations

import pytest

from failover.group import live
from failover.mutants import MUTANTS, Mutant, first_seed_that_finds
from seeds import SEED

SEEDS_OF_A_MUTANT = 20


SHORT = 2
"""Of the planted errors, so many are in `make test`; all are in `make proof`."""


@pytest.mark.parametrize("number", [0, 1, *(pytest.param(number, marks=pytest.mark.proof) for number in range(2, 6))])
def test_no_acknowledged_message_is_lost_in_a_groups_life(number: int) -> None:
    group = live(SEED * 100 + number)
    assert group.counts["acknowledged"] > 100


@pytest.mark.parametrize(
    "mutant",
    [*MUTANTS[:SHORT], *(pytest.param(mutant, marks=pytest.mark.proof) for mutant in MUTANTS[SHORT:])],
    ids=lambda mutant: mutant.name,
)
def test_a_planted_error_is_found(mutant: Mutant) -> None:
    assert first_seed_that_finds(mutant, SEEDS_OF_A_MUTANT) is not None
