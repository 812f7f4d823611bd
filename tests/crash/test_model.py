"""The store against a plain account of what it promised, through random histories: `make proof ARGS="--only crash/model"` plays a million steps.

Checked that it bites: see the list in `docs/explain/durability.md`.
"""

import logging

from crash.model import play
from seeds import SEED


def test_the_store_keeps_what_it_promised_through_every_history(caplog):
    caplog.set_level(logging.CRITICAL)
    counts = play(8_000, SEED)
    assert all(
        counts[name] for name in ("kills", "power cuts", "ends while starting", "acknowledged", "refused", "delete")
    )
