"""Power cuts and kills of delayed messages; the long form is a row of `crash.figures`.

Checked that these bite: notes that are believed always, or when the log has grown past their place, and no notes.
"""

import pytest

from crash.delay_cuts import Simulation
from seeds import seeds


@pytest.mark.parametrize("seed", [1, 5, 17, *seeds(10)])
def test_delayed_messages_come_through_crashes_and_a_kill_repeats_none(seed: int) -> None:
    """The first three are histories that tell of a wrong belief in the notes."""
    Simulation(seed).run()
