"""kill -9 of a slave and of a SYNC_MASTER under load; the long form is the row `replication/kills` of the proof."""

from pathlib import Path
from random import Random

from crash.replica_kills import Kills
from seeds import SEED


async def test_a_promoted_slave_keeps_what_its_master_has_promised(tmp_path: Path) -> None:
    load = Kills(tmp_path, Random(SEED), pace=100, long_share=0)
    await load.run(2)
    promises = load.promises
    kinds = (promises.kept, promises.later, promises.to_pop, promises.decisions, promises.returned, promises.alone)
    assert all(kinds), load.told
