"""Lives of whole clusters, in processes of their own: the order of Python's sets is part of a life."""

from __future__ import annotations

import subprocess
import sys

import pytest

from children import environment
from seeds import seeds

SEEDS, MANY_SEEDS, MUTANT_SEEDS_MAX = 2, 24, 60


STALLING_HOST = """
import itertools, runpy, sys, time
time.perf_counter = time.monotonic = itertools.count(step=10.0).__next__  # ten seconds between any two looks
runpy.run_module("simulation", run_name="__main__")
"""


def simulate(*arguments: str, program: tuple[str, ...] = ("-m", "simulation")) -> str:
    """Return what the simulator says; everything, where a claim does not hold."""
    command = [sys.executable, *program, *arguments]
    done = subprocess.run(command, env=environment() | {"PYTHONHASHSEED": "0"}, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.mark.parametrize("count", [SEEDS, pytest.param(MANY_SEEDS, marks=pytest.mark.proof)])
def test_clusters_lose_nothing_and_are_whole_again_when_nothing_fails_any_more(count: int) -> None:
    said = simulate("--seeds", str(count), "--first", str(seeds(count).start))
    assert f"{count} lives, 0 failed" in said


def test_a_seed_is_played_again_bit_for_bit() -> None:
    assert simulate("--seeds", "1", "--first", "20") == simulate("--seeds", "1", "--first", "20")


@pytest.mark.proof
def test_a_host_that_stalls_changes_no_life() -> None:
    stalled = simulate("--seeds", "3", "--first", "20", program=("-c", STALLING_HOST))
    assert stalled == simulate("--seeds", "3", "--first", "20")


@pytest.mark.proof
def test_every_planted_error_is_found() -> None:
    assert "NOT FOUND" not in simulate("--mutants", "--seeds", str(MUTANT_SEEDS_MAX))
