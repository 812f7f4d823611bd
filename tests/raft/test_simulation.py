"""Groups of Raft nodes under faults, one life for each seed; `make proof ARGS="--only simulation/raft"` runs thousands of them."""

import pytest

from raft.checker import Violation
from raft.simulation import Life, live
from seeds import seeds

BATCH = 5


@pytest.mark.parametrize("first", [0, *seeds(2 * BATCH)[::BATCH]])
def test_no_claim_of_raft_is_broken_and_a_healed_group_goes_on(first):
    for seed in range(first, first + BATCH):
        live(seed)


def test_a_seed_is_one_life_bit_for_bit():
    traces: list[list[str]] = [[], []]
    for trace in traces:
        life = Life(4)
        life.trace = trace
        life.run(events=1_500)
    assert traces[0] == traces[1]
    assert len(traces[0]) > 100


def test_an_error_names_its_seed(monkeypatch):
    def break_down(self, events):
        raise Violation("two leaders")

    monkeypatch.setattr(Life, "run", break_down)
    with pytest.raises(Violation, match="seed 17, event 0: two leaders"):
        live(17)


def test_lives_are_eventful():
    simulations = [live(seed) for seed in range(3)]
    assert sum(life.checker.elections for life in simulations) > 10
    assert sum(life.checker.last_committed for life in simulations) > 200
