"""Power cuts: whatever was not synced may be lost sector by sector, at any moment.

Checked that these bite: `sync` made a no-op, messages visible before they are durable, body checksums ignored,
recovery without its sync, the last trusted entry of a queue not compared with its record, a new segment made before
the last one was synced, a checkpoint that promises three seconds too much.
"""

from collections import Counter
from random import Random

import pytest

from crash.power_cuts import Simulation, live, live_async
from orbitmq.store import FlushMode
from seeds import seeds

SEEDS = [*seeds(10), *(pytest.param(seed, marks=pytest.mark.proof) for seed in seeds(50)[10:])]


# 2066: a cut during recovery takes back entries that the checkpoint had covered. 10,000 cuts are a row of the proof.
@pytest.mark.parametrize("seed", [*seeds(25), 2066])
def test_every_acknowledged_message_survives_power_cuts(seed):
    live(seed, Counter())


@pytest.mark.parametrize("seed", SEEDS)
def test_a_reader_never_sees_what_a_power_cut_takes_back_upstream_8239(seed):
    simulation = Simulation(Random(seed), FlushMode.SYNC)
    simulation.open()
    for _ in range(40):
        queue, result = simulation.send()
        if simulation.random.random() < 0.2:
            simulation.acknowledge(queue, result)
    if simulation.random.random() < 0.5:  # what a killed broker left in the page cache is no safer
        simulation.disk = simulation.disk.after_kill()
        simulation.open()
    seen = simulation.kept()
    simulation.disk = simulation.disk.after_power_cut(simulation.random)
    simulation.open()
    for queue, bodies in simulation.kept().items():
        assert bodies[: len(seen[queue])] == seen[queue]


@pytest.mark.parametrize("seed", seeds(10))
def test_async_flush_loses_a_suffix_after_the_last_flush_and_nothing_else(seed):
    live_async(seed, Counter())


@pytest.mark.parametrize("seed", SEEDS)
def test_kill_9_loses_nothing_that_was_appended(seed):
    simulation = Simulation(Random(seed), FlushMode.ASYNC)
    for _ in range(3):
        simulation.open()
        for _ in range(simulation.random.randrange(40)):
            simulation.send()
            if simulation.random.random() < 0.05:
                simulation.store.flush()
        simulation.acknowledged = {queue: len(sent) for queue, sent in simulation.sent.items()}
        simulation.disk = simulation.disk.after_kill()
    simulation.open()
    simulation.check_and_forget_lost()
