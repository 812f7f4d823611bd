"""Planted errors that the simulator has to find: a simulator that misses one is itself red."""

import pytest

from raft.mutants import MUTANTS, first_seed_that_finds

SEEDS_MAX = 300


SHORT = 3
"""Of the planted errors, so many are in `make test`; all are in `make proof`."""


@pytest.mark.parametrize(
    "mutant",
    [*MUTANTS[:SHORT], *(pytest.param(mutant, marks=pytest.mark.proof) for mutant in MUTANTS[SHORT:])],
    ids=lambda mutant: mutant.name,
)
def test_the_simulator_finds(mutant):
    assert first_seed_that_finds(mutant, SEEDS_MAX) is not None
