"""A broker's tables, index, timers and batches removed, emptied, zeroed and garbled, one file at a time."""

import tempfile
from itertools import cycle
from pathlib import Path

from crash.broker_damage import DAMAGES, Histories
from crash.damage import Outcome
from crash.faults import QUICK_DISK
from orbitmq.broker.persistence import NEEDED
from orbitmq.net.loop import run

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
        elif case.damage == "zeroed in its slots":
            yield case
        elif case.name not in seen:
            seen.add(case.name)
            yield case._replace(damage=next(ways))


def test_no_damage_of_a_brokers_files_is_a_silent_loss():
    async def scene():
        with tempfile.TemporaryDirectory(dir=QUICK_DISK) as directory:
            histories = await Histories.make(Path(directory))
            cases = list(short(histories.cases()))
            kinds = {case.kind for case in cases}
            assert {*NEEDED, "consumerOrderInfo.json", "index/*", "indexed", "tables", "timerwheel"} <= kinds, kinds
            return {case: await histories.judge(case) for case in cases}

    found = run(scene())
    wrong = {str(case): what for case, what in found.items() if what[0] not in allowed(case.kind, case.damage)}
    assert wrong == {}
