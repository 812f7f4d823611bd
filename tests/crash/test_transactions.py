"""kill -9 of a producer and a broker: every committed message is delivered, none twice, and no other one."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest

from crash.transactions import Kills

SEED = int(os.environ.get("ORBITMQ_SEED", "20261122"))


@pytest.mark.proof
async def test_transactions_survive_kills_of_producer_and_broker(tmp_path: Path) -> None:
    print(f"ORBITMQ_SEED={SEED}")
    load = Kills(tmp_path, Random(SEED), flush="ASYNC_FLUSH", pace=60)
    await load.run(2)
    assert [load.counts[victim] for victim in ("both", "broker")] == [1, 1]
    assert load.counts["delivered"] > 0
