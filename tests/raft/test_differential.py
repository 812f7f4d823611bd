"""Our core and etcd-io/raft after the same steps; `make proof ARGS="--only raft/differential"` runs a million of them."""

import pytest

from machine import give_up
from raft import differential
from raft.differential import Difference, Script, etcd_nodes, why_unavailable
from raft.mutants import MUTANTS, planted

pytestmark = pytest.mark.proof  # Go is not part of what `make test` sets up
FOUND = (
    "votes without a look at the log",
    "half is a majority",
    "entries of older terms are committed by count",
    "an old Append cuts the log",
    "a vote for another may be lost",
    "answers to older heartbeats confirm reads",
)
"""Planted errors that are seen without a crash between a step and its disk."""


@pytest.fixture(scope="module")
def etcd():
    if (reason := why_unavailable()) is not None:
        give_up(reason)
    with etcd_nodes() as nodes:
        yield nodes


@pytest.mark.parametrize("first", [0, 5])
def test_our_core_and_that_of_etcd_are_equal_after_every_step(etcd, first):
    scripts = [Script(seed, etcd) for seed in range(first, first + 5)]
    for script in scripts:
        script.run(300)
    assert sum(script.counts["elections"] for script in scripts) > 5
    assert sum(script.counts["committed"] for script in scripts) > 50


@pytest.mark.parametrize("mutant", [mutant for mutant in MUTANTS if mutant.name in FOUND], ids=lambda found: found.name)
def test_the_comparison_finds(etcd, mutant):
    def compare():
        for seed in range(20):
            Script(seed, etcd, core).run()

    with planted(mutant) as core, pytest.raises(Difference, match=r"seed \d+, step \d+"):
        compare()


def test_without_go_one_sentence_says_what_is_missing(monkeypatch):
    monkeypatch.setattr(differential, "find_go", lambda: None)
    assert why_unavailable.__wrapped__() == "the comparison with etcd's Raft needs Go, and there is no `go` on the PATH"
