"""Members of a group that fails over are killed under load; the long form is the row `failover/kills` of the proof."""

import time
from pathlib import Path
from random import Random

import pytest

from crash.failover_kills import Kills
from crash.failover_load import Ack, Notes
from crash.replica_load import Place
from crash.replicas import Lost
from seeds import SEED


@pytest.mark.proof
async def test_another_member_leads_and_has_what_was_promised(tmp_path: Path) -> None:
    kinds = ("master", "controller", "master")
    kills = Kills(tmp_path, Random(SEED), pace=50, kinds=kinds)
    await kills.run(len(kinds))
    assert kills.notes.kept, kills.told
    assert kills.notes.seen, kills.told
    assert ("master", "producers") in kills.outages


def test_two_masters_that_acknowledge_at_the_same_time_are_found() -> None:
    notes = Notes()
    notes.acks = [Ack(1.0, 1.1, 1, 100, True), Ack(1.2, 1.3, 2, 200, True), Ack(1.2, 1.4, 1, 150, True)]
    notes.check_order()
    notes.acks.append(Ack(1.35, 1.5, 1, 175, False))
    with pytest.raises(Lost, match="two masters"):
        notes.check_order()


def test_a_place_has_one_message() -> None:
    notes, place = Notes(), Place("numbered", 0, 7)
    message_id = "7F000001" + f"{10911:08X}" + f"{4096:016X}"
    notes.acknowledged(place, b"1", 1.0, message_id, by_producer=True)
    notes.read(place, b"1")
    with pytest.raises(Lost, match="both acknowledged"):
        notes.acknowledged(place, b"2", 1.0, message_id, by_producer=True)
    with pytest.raises(Lost, match="and then"):
        notes.read(place, b"2")


def test_commits_may_go_back_a_little_after_a_failure_only() -> None:
    notes, later_s = Notes(), time.monotonic() + 60
    notes.is_committed(0, 0.0, 10, 20)
    notes.is_committed(0, 0.0, 9, 20)
    with pytest.raises(Lost, match="went back from 10 to 9"):
        notes.is_committed(0, later_s, 9, 20)
    notes.fails(commits_lost_s=1.5)
    notes.failures_s[-1] = notes.committed[0][0][0] + 1
    notes.is_committed(0, later_s, 9, 20)
    with pytest.raises(Lost, match="ends at 20"):
        notes.is_committed(0, later_s, 21, 20)
