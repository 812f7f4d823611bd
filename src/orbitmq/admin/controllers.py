"""The controllers, as brokers and administrators ask them: the one that leads answers, and the others say which one that is.

Source: Java BrokerOuterAPI, ReplicasManager, MQAdminExt.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, TypeVar, overload

from orbitmq.admin.controller_facts import ControllerFacts
from orbitmq.admin.monitoring import ask_broker_health
from orbitmq.codes import ResponseCode
from orbitmq.errors import ClientError, ConnectionFailed, HeaderError, RemoteRefused
from orbitmq.net.pool import ConnectionPool, expect
from orbitmq.wire.bodies.controller import SyncState, decode_sync_states, encode_broker_names
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers.controller import (
    ElectMaster,
    ElectMasterResponse,
    GetControllerMetadata,
    GetControllerMetadataResponse,
    GetSyncStates,
)
from orbitmq.wire.headers.nameserver import BrokerHeartbeat

log = logging.getLogger(__name__)

TIMEOUT_MS = 1_000
_NOT_ASKED = frozenset({ResponseCode.CONTROLLER_NOT_LEADER, ResponseCode.SYSTEM_BUSY})

T = TypeVar("T")


async def ask_controllers(
    pool: ConnectionPool, addresses: Iterable[str], *, timeout_ms: int = TIMEOUT_MS
) -> list[ControllerFacts]:
    """Ask controllers, and those that they name, how they are doing."""
    found: dict[str, ControllerFacts] = {}
    asked = set(addresses)
    for _ in range(2):  # those that are given, and those that they name
        named: set[str] = set()
        answers = await asyncio.gather(*(_ask_controller(pool, address, timeout_ms) for address in sorted(asked)))
        for facts, peers in answers:
            found[facts.address] = facts
            named |= peers
        asked = named - found.keys()
    return [found[address] for address in sorted(found)]


async def _ask_controller(pool: ConnectionPool, address: str, timeout_ms: int) -> tuple[ControllerFacts, set[str]]:
    """Return what one controller tells, and the addresses of all that it knows."""
    try:
        told = expect(await pool.request(address, GetControllerMetadata(), timeout_ms=timeout_ms), address)
        found = decode_header(GetControllerMetadataResponse, told.ext_fields)
        health = await ask_broker_health(pool, address, timeout_ms=timeout_ms)
    except (ClientError, HeaderError, ValueError) as error:
        return ControllerFacts(address=address, problem=str(error)), set()
    peers = {peer.partition(":")[2] for peer in (found.peers or "").split(";") if peer}
    return ControllerFacts(address=address, leader=found.controller_leader_address or "", health=health), peers


class Controllers:
    """Asks the controller that leads.

    Args:
        addresses: of all of them, host:port each (controllerAddr).
    """

    def __init__(self, addresses: Sequence[str], pool: ConnectionPool) -> None:
        self._addresses = tuple(addresses)
        self._pool = pool
        self._leader = ""

    @overload
    async def ask(
        self, header: object, answer: None = None, body: bytes = b"", *, timeout_ms: int = TIMEOUT_MS
    ) -> tuple[None, bytes]: ...

    @overload
    async def ask(
        self, header: object, answer: type[T], body: bytes = b"", *, timeout_ms: int = TIMEOUT_MS
    ) -> tuple[T, bytes]: ...

    async def ask(
        self, header: object, answer: Any = None, body: bytes = b"", *, timeout_ms: int = TIMEOUT_MS
    ) -> tuple[Any, bytes]:
        """Ask the leader; return the header and the body of its answer.

        Args:
            answer: the type of the answer's header, None when there is none to look at.
            timeout_ms: after which a leader is asked for again, and asked once more.

        Raises:
            RemoteRefused: it refuses.
            ClientError: no controller leads, or can be reached.
        """
        last: ClientError = ConnectionFailed(",".join(self._addresses), "no controller leads")
        for _ in range(2):
            leader = self._leader or await self._find_leader()
            if not leader:
                raise last
            try:
                command = await self._pool.request(leader, header, body, timeout_ms=timeout_ms)
            except ClientError as error:
                last, self._leader = error, ""
                continue
            if command.code in _NOT_ASKED:
                last, self._leader = RemoteRefused(command.code, command.remark, leader), ""
                continue
            self._leader = leader
            if command.code not in (ResponseCode.SUCCESS, ResponseCode.CONTROLLER_MASTER_STILL_EXIST):
                raise RemoteRefused(command.code, command.remark, leader)
            found = None if answer is None else decode_header(answer, command.ext_fields)
            return found, bytes(command.body)
        raise last

    async def sync_states(self, broker_names: Iterable[str]) -> dict[str, SyncState]:
        """Return the members of broker names, in and out of their sync sets; those that are not known are left out.

        Raises:
            ClientError: as `ask`.
            HeaderError: the answer cannot be read.
        """
        _, body = await self.ask(GetSyncStates(), body=encode_broker_names(list(broker_names)))
        return decode_sync_states(body) if body else {}

    async def hand_over(self, broker_name: str, broker_id: int) -> int:
        """Let a member of the sync set lead; return the epoch that begins.

        Raises:
            RemoteRefused: it is not a living member of the sync set.
            ClientError: as `ask`.
        """
        header = ElectMaster(broker_name=broker_name, broker_id=broker_id, designate_elect=True)
        found, _ = await self.ask(header, ElectMasterResponse)
        return found.master_epoch or 0

    async def beat(self, heartbeat: Callable[[], BrokerHeartbeat | None], interval_s: float) -> None:
        """Tell every controller that this broker lives, again and again, until it is cancelled; None: not this time.

        Each knows the living members, so that one that begins to lead need not wait to know them. One that does not answer keeps
        none of the others waiting.
        """
        await asyncio.gather(*(self._beat(address, heartbeat, interval_s) for address in self._addresses))

    async def _beat(self, address: str, heartbeat: Callable[[], BrokerHeartbeat | None], interval_s: float) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due_s = loop.time() + interval_s
            if (header := heartbeat()) is not None:
                with suppress(ClientError):
                    await self._pool.request(address, header, timeout_ms=TIMEOUT_MS)
            await asyncio.sleep(due_s - loop.time())

    async def _find_leader(self) -> str:
        """Ask all controllers at the same time who leads.

        Returns:
            the address of the first that says it does, else of the one that most name; empty without one.
        """
        named = []
        for asking in asyncio.as_completed(map(self._leader_by, self._addresses)):
            address, leader = await asking
            if leader == address:
                return leader
            if leader:
                named.append(leader)
        return max(named, key=named.count, default="")

    async def _leader_by(self, address: str) -> tuple[str, str]:
        """Return a controller and the leader that it names, empty for none."""
        try:
            command = await self._pool.request(address, GetControllerMetadata(), timeout_ms=TIMEOUT_MS)
            found = decode_header(GetControllerMetadataResponse, command.ext_fields)
        except (ClientError, HeaderError):
            return address, ""
        return address, address if found.is_leader else found.controller_leader_address or ""
