"""Attacks on the port where slaves follow; the long form is the row `replication/adversary` of the proof."""

from pathlib import Path
from random import Random

import pytest

from crash.replica_adversary import forged_reports, old_master, strangers
from seeds import SEED


@pytest.mark.proof
async def test_no_stranger_on_the_port_of_slaves_counts_as_a_slave(tmp_path: Path) -> None:
    assert "0 of" in await strangers(tmp_path, Random(SEED), 60)


@pytest.mark.parametrize(("sizes", "is_told"), [((1, 1), False), pytest.param((2, 1), True, marks=pytest.mark.proof)])
async def test_an_old_master_with_a_history_of_its_own_never_follows(
    tmp_path: Path, sizes: tuple[int, int], is_told: bool
) -> None:
    assert "is refused" in await old_master(tmp_path, sizes, is_told=is_told)


@pytest.mark.proof
async def test_a_report_of_more_than_was_sent_confirms_nothing(tmp_path: Path) -> None:
    assert "all on the slave" in await forged_reports(tmp_path, Random(SEED), 1)
