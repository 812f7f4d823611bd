"""Power cuts and kills of index, timers and POP; the long form is a row of `crash.figures`.

Checked that these bite: a queue of timers that is read on behind the timer log's last unit, a wheel that is compared by numbers
alone, or without a checkpoint from the first unit's time on, units that a power cut brings back, offsets of pops that are kept
before their checkpoints.
"""

import pytest

from crash.derived_cuts import Simulation
from seeds import seeds


@pytest.mark.parametrize("seed", [10, 16, 18, 42, 208, 272, 495, *seeds(8)])
def test_index_timers_and_pop_keep_their_promises_through_crashes(seed: int) -> None:
    """The first seven are histories in which they once did not."""
    Simulation(seed).run()
