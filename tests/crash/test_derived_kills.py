"""kill -9 in the midst of keyed messages, timers, pops, transactions and requests; the long form is a row of `crash.figures`."""

from pathlib import Path
from random import Random

from crash.derived_kills import Kills
from seeds import SEED


async def test_queries_timers_and_pops_keep_their_promises_through_kills(tmp_path: Path) -> None:
    load = Kills(tmp_path, Random(SEED), flush="ASYNC_FLUSH", pace=40)
    await load.run(2)
    kinds = ("kills", "look-ups", "keyed", "timers", "popped", "transactions", "replies")
    assert all(load.counts[kind] for kind in kinds), load.counts
