"""Planted errors that the simulator has to find: a simulator that misses one is itself red."""

import pytest

from raft.mutants import MUTANTS, first_seed_that_finds

SEEDS_MAX = 300
SHORT = range(3, 9)
"""Of the planted errors, the numbers of those of `make test`: few seeds find them. `make proof` has all."""


@pytest.mark.parametrize(
    "mutant",
    [
        mutant if number in SHORT else pytest.param(mutant, marks=pytest.mark.proof)
        for number, mutant in enumerate(MUTANTS)
    ],
    ids=lambda mutant: mutant.name,
)
def test_the_simulator_finds(mutant):
    assert first_seed_that_finds(mutant, SEEDS_MAX) is not None
