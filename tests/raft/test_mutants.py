"""Planted errors that the simulator has to find: a simulator that misses one is itself red."""

import pytest

from raft.mutants import MUTANTS, first_seed_that_finds

SEEDS_MAX = 300
SHORT = slice(3, 9)
"""Of the planted errors, those of `make test`: few seeds find them. `make proof` has all."""


@pytest.mark.parametrize(
    "mutant",
    [mutant if mutant in MUTANTS[SHORT] else pytest.param(mutant, marks=pytest.mark.proof) for mutant in MUTANTS],
    ids=lambda mutant: mutant.name,
)
def test_the_simulator_finds(mutant):
    assert first_seed_that_finds(mutant, SEEDS_MAX) is not None
