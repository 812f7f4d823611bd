"""Notices of elections to the members of a group: to all at the same time, and none waits for another.

Connections to living brokers are opened before they are needed. A member that does not answer is told again until there
is something newer to say; after that it finds the master itself, as it asks every few seconds.
"""

from __future__ import annotations

import asyncio
import logging

from orbitmq.controller.values import LiveMembers, ReplicaGroup
from orbitmq.errors import ClientError
from orbitmq.net.pool import ConnectionPool
from orbitmq.wire.bodies.controller import SyncSet, encode_sync_set
from orbitmq.wire.headers import NotifyBrokerRoleChanged

log = logging.getLogger(__name__)

NOTICE_TIMEOUT_MS = 1_000
ATTEMPTS = 3
PAUSE_S = 0.05
CONNECT_ATTEMPTS = 10
CONNECT_PAUSE_S = 1.0
"""A broker sends its first heartbeats some seconds before it listens."""


class Notices:
    """Tells brokers their master.

    Args:
        pool: connects to them.
    """

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        self._tasks: dict[tuple[str, int], asyncio.Task[None]] = {}
        self._connecting: set[asyncio.Task[None]] = set()

    def tell(self, group: ReplicaGroup, living: LiveMembers) -> None:
        """Tell every living member the master; what they were not told yet of this group is outdated."""
        header = NotifyBrokerRoleChanged(
            master_address=group.address_of(group.master),
            master_epoch=group.master_epoch,
            sync_state_set_epoch=group.sync_set_epoch,
            master_broker_id=group.master,
        )
        body = encode_sync_set(SyncSet(group.sync_set, group.sync_set_epoch))
        for broker_id in sorted(living.alive.keys() & group.replicas.keys()):
            key = group.name, broker_id
            if (older := self._tasks.pop(key, None)) is not None:
                older.cancel()
            task = asyncio.get_running_loop().create_task(self._tell(group.replicas[broker_id].address, header, body))
            self._tasks[key] = task
            task.add_done_callback(lambda done, key=key: self._forget(key, done))  # type: ignore[misc]

    def connect(self, address: str) -> None:
        """Open the connection to a broker."""
        task = asyncio.get_running_loop().create_task(self._connect(address))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def close(self) -> None:
        """End what is under way."""
        tasks = (*self._tasks.values(), *self._connecting)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _tell(self, address: str, header: NotifyBrokerRoleChanged, body: bytes) -> None:
        for _ in range(ATTEMPTS):
            try:
                # Java's controllers do not wait for the answer that their brokers have; with it we know.
                answer = await self._pool.request(address, header, body, timeout_ms=NOTICE_TIMEOUT_MS)
            except (ClientError, ValueError) as error:
                log.warning("could not tell %s the master of its broker-set: %s", address, error)
                self._pool.close_address(address)
                await asyncio.sleep(PAUSE_S)
            else:
                if answer.code:
                    log.warning("%s does not take its role: [%d] %s", address, answer.code, answer.remark)
                return

    async def _connect(self, address: str) -> None:
        for attempt in range(1, CONNECT_ATTEMPTS + 1):
            try:
                await self._pool.connect(address)
            except (ClientError, ValueError) as error:
                if attempt == CONNECT_ATTEMPTS:
                    log.warning("could not connect to the broker %s: %s", address, error)
                else:
                    await asyncio.sleep(CONNECT_PAUSE_S)
            else:
                return

    def _forget(self, key: tuple[str, int], done: asyncio.Task[None]) -> None:
        if self._tasks.get(key) is done:
            del self._tasks[key]
