"""Short forms of the simulation of failover; the long one is the row `simulation/failover` of the proof."""

from __future__ import annotations

import pytest

from failover.group import live
from failover.mutants import MUTANTS, Mutant, first_seed_that_finds
from seeds import SEED

SEEDS_OF_A_MUTANT = 20


@pytest.mark.parametrize("number", range(6))
def test_no_acknowledged_message_is_lost_in_a_groups_life(number: int) -> None:
    group = live(SEED * 100 + number)
    assert group.counts["acknowledged"] > 100


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_planted_error_is_found(mutant: Mutant) -> None:
    assert first_seed_that_finds(mutant, SEEDS_OF_A_MUTANT) is not None
