"""Power cuts: whatever was not synced may be lost sector by sector, at any moment.

Checked that these bite: `sync` made a no-op, messages visible before they are durable, body checksums ignored,
recovery without its sync, the last trusted entry of a queue not compared with its record, a new segment made before
the last one was synced, a checkpoint that promises three seconds too much.
"""

from collections import Counter
from random import Random

import pytest

from crash.power_cuts import Life, live, live_async
from orbitmq.store import FlushMode
from seeds import seeds


# 2066: a cut during recovery takes back entries that the checkpoint had vouched for.
@pytest.mark.parametrize("seed", [*seeds(150), 2066])
def test_every_acknowledged_message_survives_power_cuts(seed):
    live(seed, Counter())


@pytest.mark.parametrize("seed", seeds(100))
def test_a_reader_never_sees_what_a_power_cut_takes_back_upstream_8239(seed):
    life = Life(Random(seed), FlushMode.SYNC)
    life.open()
    for _ in range(40):
        queue, result = life.send()
        if life.random.random() < 0.2:
            life.acknowledge(queue, result)
    if life.random.random() < 0.5:  # what a killed broker left in the page cache is no safer
        life.disk = life.disk.after_kill()
        life.open()
    seen = life.kept()
    life.disk = life.disk.after_power_cut(life.random)
    life.open()
    for queue, bodies in life.kept().items():
        assert bodies[: len(seen[queue])] == seen[queue]


@pytest.mark.parametrize("seed", seeds(100))
def test_async_flush_loses_a_suffix_after_the_last_flush_and_nothing_else(seed):
    live_async(seed, Counter())


@pytest.mark.parametrize("seed", seeds(50))
def test_kill_9_loses_nothing_that_was_appended(seed):
    life = Life(Random(seed), FlushMode.ASYNC)
    for _ in range(3):
        life.open()
        for _ in range(life.random.randrange(40)):
            life.send()
            if life.random.random() < 0.05:
                life.store.flush()
        life.acknowledged = {queue: len(sent) for queue, sent in life.sent.items()}
        life.disk = life.disk.after_kill()
    life.open()
    life.check_and_forget_lost()
