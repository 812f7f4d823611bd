"""A broker's tables, index, timers and batches removed, emptied, zeroed and garbled, one file at a time."""

import tempfile
from itertools import cycle
from pathlib import Path

import pytest

from crash.broker_damage import DAMAGES, LAST_DAMAGES, Histories
from crash.damage import Outcome
from crash.faults import QUICK_DISK
from orbitmq.broker.persistence import NEEDED
from orbitmq.net.loop import run

LIGHT = "lmqConsumerOffset.json"
W, B, N, R = Outcome.WHOLE, Outcome.REBUILT, Outcome.NAMED, Outcome.REFUSED


def allowed(kind, damage):
    """What may come of each kind of file."""
    if damage.endswith("its .bak"):
        return {R}
    if kind in NEEDED:
        return {B, N, R}
    if kind == "consumerOrderInfo.json":
        return {B, N}
    return {W} if kind.endswith(".bak") else {W, B}


def short(cases):
    """Every file after kill -9, in one way each, and every table that is gone in all its generations."""
    seen, ways = set(), cycle(DAMAGES)
    for case in cases:
        if case.damage.endswith("its .bak"):
            if case.end == "kill -9":
                yield case
        elif case.name not in seen:
            seen.add(case.name)
            yield case._replace(damage=next(ways))


async def judged(choose, **settings):
    """Each case that is chosen, and what comes of it."""
    with tempfile.TemporaryDirectory(dir=QUICK_DISK) as directory:
        histories = await Histories.make(Path(directory), **settings)
        return {case: await histories.judge(case) for case in choose(histories.cases())}


def wrong(found):
    return {str(case): what for case, what in found.items() if what[0] not in allowed(case.kind, case.damage)}


@pytest.mark.proof
def test_no_damage_of_a_brokers_files_is_a_silent_loss():
    found = run(judged(short))
    expected = {*NEEDED, "consumerOrderInfo.json", "index/*", "tables", "timerwheel"} - {LIGHT}
    assert expected <= {case.kind for case in found}
    assert wrong(found) == {}


def test_nor_is_one_of_the_offsets_of_a_broker_with_lmqs():
    def lmq(cases):
        return [case for case in cases if case.kind == LIGHT and case.end == "kill -9"]

    found = run(judged(lmq, has_lmq=True))
    assert len(found) == len(DAMAGES) + len(LAST_DAMAGES)
    assert wrong(found) == {}
