"""Planted errors that the simulator has to find: a simulator that misses one is itself red."""

import pytest

from raft.mutants import MUTANTS, first_seed_that_finds

SEEDS_MAX = 300


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_simulator_finds(mutant):
    assert first_seed_that_finds(mutant, SEEDS_MAX) is not None
