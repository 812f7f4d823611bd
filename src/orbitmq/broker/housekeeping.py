"""Housekeeping: the periodic jobs of a broker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from orbitmq.broker.monitoring.repeated_failure import RepeatedFailure

log = logging.getLogger(__name__)

TURN_MS = 1_000


class PeriodicJob(NamedTuple):
    """Something to do every `period_ms`; shorter periods than a turn mean every turn."""

    period_ms: int
    run: Callable[[], Awaitable[None] | None]


class Housekeeping:
    """Runs jobs whenever their period is over. One that fails is tried again at its next time, and stops no other.

    What keeps it from being done, a full disk for hours, is logged once.
    """

    def __init__(self, jobs: Sequence[PeriodicJob]) -> None:
        text = "a job of the housekeeping failed, it is tried again"
        self._jobs = [(job, RepeatedFailure(log, text)) for job in jobs]

    async def run(self) -> None:
        """Do what is due, turn by turn. Ends when it is cancelled."""
        elapsed_ms = 0
        while True:
            await asyncio.sleep(TURN_MS / 1000)
            elapsed_ms += TURN_MS
            await self.do_due(elapsed_ms)

    async def do_due(self, elapsed_ms: int) -> None:
        """Run the jobs whose period ends in the turn that ends now.

        Args:
            elapsed_ms: since the start, a multiple of TURN_MS.
        """
        for job, failure in self._jobs:
            if elapsed_ms % job.period_ms >= TURN_MS:
                continue
            try:
                outcome = job.run()
                if outcome is not None:
                    await outcome
            except Exception as error:
                failure.note(error)
            else:
                failure.note(None)
