"""Routes as a broker looks them up: where all queues of a topic are, this broker's and the others'.

Source: Java TopicRouteInfoManager.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from orbitmq.clock import Clock
from orbitmq.errors import OrbitError
from orbitmq.model.route import MessageQueue

KEPT_MS = 5_000
"""So long an answer stands for the next ones: a group's consumers all ask at the same time."""
KEPT_COUNT_MAX = 10_000
UNDER_WAY_MAX = 1_000
"""Topics that may be looked up at a time."""

Found = list[MessageQueue] | None
"""A topic's queues, None when no NameServer knows or answers."""


class RouteLookup:
    """Looks up the queues of topics, one request for all callers that ask for the same.

    Args:
        ask: asks a NameServer for a topic's readable queues; None: it does not know the topic.
        clock: the monotonic one.
    """

    def __init__(self, ask: Callable[[str], Awaitable[Found]], clock: Clock) -> None:
        self._ask = ask
        self._clock = clock
        self._kept: dict[str, tuple[int, list[MessageQueue]]] = {}
        self._waiting: dict[str, list[Callable[[Found], None]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def find(self, topic: str, then: Callable[[Found], None]) -> None:
        """Call `then` with a topic's queues, now or later."""
        kept = self._kept.get(topic)
        if kept is not None and kept[0] > self._clock():
            then(kept[1])
            return
        waiting = self._waiting.get(topic)
        if waiting is not None:
            waiting.append(then)
        elif len(self._waiting) >= UNDER_WAY_MAX:
            then(None)
        else:
            self._waiting[topic] = [then]
            task = asyncio.get_running_loop().create_task(self._look_up(topic))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Answer all waiters with None."""
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _look_up(self, topic: str) -> None:
        found: Found = None
        try:
            found = await self._ask(topic)
        except OrbitError:
            pass  # the registrar tells of NameServers that do not answer
        finally:
            if found:
                self._keep(topic, found)
            for then in self._waiting.pop(topic):
                then(found)

    def _keep(self, topic: str, found: list[MessageQueue]) -> None:
        self._kept.pop(topic, None)
        self._kept[topic] = self._clock() + KEPT_MS, found
        if len(self._kept) > KEPT_COUNT_MAX:
            del self._kept[next(iter(self._kept))]
