"""Honest clients of a NameServer under attack: they ask for their route again and again, and note how long it took."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

from hostile.victim import Victim
from orbitmq.errors import ClientError
from orbitmq.net.pool import ConnectionPool, expect
from orbitmq.wire.headers import GetRouteInfo
from unit.nameserver.support import registration

TOPIC = "honest-topic-that-nobody-else-names"
TIMEOUT_MS = 3_000


class Honest:
    """A broker that has registered, and clients that ask for its topic."""

    def __init__(self, victim: Victim) -> None:
        self._victim = victim
        self._pool = ConnectionPool()
        self.answers_ms: list[float] = []
        self.failures = 0

    @property
    def count(self) -> int:
        """Requests so far."""
        return len(self.answers_ms) + self.failures

    async def register(self) -> None:
        """Make the topic known, or renew it for 120 s; the broker's connection stays open."""
        header, body = registration("honest", TOPIC, "another")
        expect(await self._pool.request(self._victim.address, header, body), self._victim.address)

    async def ask(self, pool: ConnectionPool) -> None:
        """Ask once; only the right route counts as an answer."""
        began = time.perf_counter()
        try:
            answer = await pool.request(self._victim.address, GetRouteInfo(topic=TOPIC), timeout_ms=TIMEOUT_MS)
        except ClientError:
            self.failures += 1
            return
        if answer.code == 0 and b'"honest"' in answer.body:
            self.answers_ms.append((time.perf_counter() - began) * 1000)
        else:
            self.failures += 1

    async def ask_while(self, goes_on: Callable[[], bool], *, clients: int = 4, pause_s: float = 0.01) -> None:
        """Ask on connections that stay open, and between two questions pause."""

        async def client() -> None:
            pool = ConnectionPool()
            while goes_on():
                await self.ask(pool)
                await asyncio.sleep(pause_s)
            await pool.close()

        await asyncio.gather(*(client() for _ in range(clients)))

    async def reconnect_while(self, goes_on: Callable[[], bool], *, pause_s: float = 0.05) -> None:
        """Open a connection, ask, close it; and again."""
        while goes_on():
            pool = ConnectionPool(connect_timeout_ms=TIMEOUT_MS)
            await self.ask(pool)
            with suppress(ClientError):
                await pool.close()
            await asyncio.sleep(pause_s)

    async def close(self) -> None:
        """Let the broker go."""
        await self._pool.close()
