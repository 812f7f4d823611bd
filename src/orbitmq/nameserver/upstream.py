"""The NameServers that are asked for unknown topics in cluster-test mode: those of the product environment.

As in Java 4.x, everything else is served as usual; 5.x takes every request for a route query in this mode. Java finds the
product environment's NameServers through an address server by its name (`productEnvName`); here they are configured.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from orbitmq.codes import ResponseCode
from orbitmq.errors import ClientError
from orbitmq.net.dispatch.handlers import Call, Reply
from orbitmq.net.pool import ConnectionPool
from orbitmq.wire.headers import GetRouteInfo

log = logging.getLogger(__name__)

TIMEOUT_MS = 3_000


class Upstream:
    """The NameServers of the product environment, asked in turn.

    Args:
        name: stands in log lines.
        pool: what they are asked through; closed by `close`.
    """

    def __init__(self, name: str, addresses: Sequence[str], pool: ConnectionPool) -> None:
        self._name = name
        self._addresses = addresses
        self._pool = pool
        self._tasks: set[asyncio.Task[None]] = set()

    def answer(self, call: Call[GetRouteInfo], otherwise: Reply) -> None:
        """Answer a route query with what the product environment says, or with `otherwise`."""
        task = asyncio.get_running_loop().create_task(self._answer(call, otherwise))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Give up what is still being asked, and close the connections."""
        for task in tuple(self._tasks):
            task.cancel()
        await self._pool.close()

    async def _answer(self, call: Call[GetRouteInfo], otherwise: Reply) -> None:
        for address in self._addresses:
            try:
                found = await self._pool.request(address, call.header, timeout_ms=TIMEOUT_MS)
            except ClientError as error:
                log.warning("%s: no answer from %s: %s", self._name, address, error)
                continue
            if found.code == ResponseCode.SUCCESS:
                call.answer(Reply(body=found.body))
                return
        call.answer(otherwise)
