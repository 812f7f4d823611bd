"""kill -9 of a slave and of a SYNC_MASTER under load; the long form is the row `replication/kills` of the proof."""

from pathlib import Path
from random import Random

import pytest

from crash.replica_claims import check_repeated
from crash.replica_kills import Kills
from crash.replicas import Lost
from seeds import SEED


@pytest.mark.proof
async def test_a_promoted_slave_keeps_what_its_master_has_promised(tmp_path: Path) -> None:
    load = Kills(tmp_path, Random(SEED), pace=100, long_share=0)
    await load.run(2)
    promises = load.promises
    kinds = (promises.kept, promises.later, promises.to_pop, promises.decisions, promises.returned, promises.alone)
    assert all(kinds), load.told


def test_a_delivery_that_was_lost_with_a_master_that_was_alone_may_come_again() -> None:
    deliveries = [(b"a", 12_000), (b"b", 12_000)]
    assert check_repeated(deliveries, {b"a": 10_500, b"b": 12_001}, [10_000]) == 1


@pytest.mark.parametrize(
    ("deliveries", "seen_ms", "promotions"),
    [([9_000, 12_000], {}, [10_000]), ([12_000], {b"a": 9_000}, [10_000]), ([12_000], {b"a": 9_000}, [13_000])],
    ids=["it is there twice", "a slave had the first one", "no promotion between"],
)
def test_other_repeated_deliveries_are_found(
    deliveries: list[int], seen_ms: dict[bytes, int], promotions: list[int]
) -> None:
    with pytest.raises(Lost, match=r"delivered twice|came again"):
        check_repeated([(b"a", at_ms) for at_ms in deliveries], seen_ms, promotions)
