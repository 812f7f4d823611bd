"""One damaged record of each internal topic, in a few of the ways that `make proof ARGS="--only damaged-records"` tries."""

from __future__ import annotations

import tempfile
from pathlib import Path

from crash.faults import QUICK_DISK
from crash.record_damage import CASES, DAMAGES, TOPICS, History


async def test_one_damaged_record_keeps_nothing_else_from_coming_once() -> None:
    kinds, damages = list(TOPICS), list(DAMAGES)
    chosen = [case for case in CASES if case.is_rebuilt and kinds.index(case.kind) == damages.index(case.damage)]
    assert len(chosen) == len(kinds)
    with tempfile.TemporaryDirectory(dir=QUICK_DISK) as directory:
        history = await History.make(Path(directory))
        verdicts = {str(case): await history.judge(case) for case in chosen}
    assert verdicts == dict.fromkeys(verdicts, "")
