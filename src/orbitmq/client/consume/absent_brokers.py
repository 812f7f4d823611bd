"""Brokers that do not answer, each asked again in the background until it does: meanwhile no request has to wait for it.

State: which brokers are away, and why. In: failures of requests. Out: tasks that end when a broker is back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import NamedTuple

from orbitmq.client.session.session import ClientSession
from orbitmq.errors import ClientError, RouteNotFound

FIRST_PAUSE_S = 0.1
PAUSE_S_MAX = 1.0
"""Between two questions to a broker that is away."""


class _Absence(NamedTuple):
    error: ClientError
    probe: asyncio.Task[None]


class AbsentBrokers:
    """Knows which brokers have not answered, until they answer a question that is cheap for them."""

    def __init__(self, session: ClientSession) -> None:
        self._session = session
        self._absences: dict[str, _Absence] = {}

    def __contains__(self, broker_name: str) -> bool:
        return broker_name in self._absences

    def note(self, broker_name: str, error: ClientError, question: object) -> None:
        """Note that a broker has not answered, and ask it until it does.

        Args:
            question: the header of a request that changes nothing; any answer will do.
        """
        self._session.note_failure(broker_name, error)
        if broker_name not in self._absences:
            probe = self._session.tasks.spawn(self._probe(broker_name, question), f"question to {broker_name}")
            self._absences[broker_name] = _Absence(error, probe)
            probe.add_done_callback(lambda _: self._absences.pop(broker_name, None))

    def error(self, broker_names: Iterable[str]) -> ClientError | None:
        """Return why there is no answer when all of these brokers are away, else None."""
        names = list(broker_names)
        away = [self._absences[name] for name in names if name in self._absences]
        return away[0].error if away and len(away) == len(names) else None

    def returns(self, broker_names: Iterable[str]) -> set[asyncio.Task[None]]:
        """Return a task for each of these brokers that is away; it ends when the broker is back. Not to be cancelled."""
        return {self._absences[name].probe for name in broker_names if name in self._absences}

    async def _probe(self, broker_name: str, question: object) -> None:
        pause_s = FIRST_PAUSE_S
        while True:
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_S_MAX)
            try:
                await self._session.call(broker_name, question, only_this=True)
            except RouteNotFound:
                return  # no route names it any more, so no request goes to it; a route that does gives it another chance
            except ClientError:
                continue
            self._session.note_answer(broker_name)
            return
