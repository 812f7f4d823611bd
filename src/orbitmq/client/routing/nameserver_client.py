"""Asks NameServers: one after the other until one answers, or all at once.

The list may hold host names. They are looked up before the first question and again whenever `look_up_again` says so;
addresses that a name no longer stands for are left, and their connections closed.

Source: Java NettyRemotingClient.getAndCreateNameserverChannel.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import TypeVar

from orbitmq.address import parse_name_servers, resolve
from orbitmq.client.routing.nameserver_list import NameServers
from orbitmq.errors import ClientError, NoNameServer
from orbitmq.net.pool import ConnectionPool
from orbitmq.wire.command import Command

T = TypeVar("T")


class Asking:
    """Questions to the NameServers of one client.

    Args:
        name_servers: `["host:port", ...]` or `"host:port;host:port"`.
        pool: the connections that carry the questions.
        random: chooses the NameServer to begin with.
        timeout_ms: how long one NameServer has to answer before the next one is asked.
    """

    def __init__(
        self, name_servers: str | Iterable[str], pool: ConnectionPool, random: Random, timeout_ms: int
    ) -> None:
        self._servers = NameServers(parse_name_servers(name_servers), random)
        self._pool = pool
        self._timeout_ms = timeout_ms
        self._looking_up: asyncio.Task[None] | None = None

    @property
    def configured(self) -> tuple[str, ...]:
        """The list as it was given."""
        return self._servers.configured

    def configure(self, name_servers: str | Iterable[str]) -> None:
        """Ask others from now on."""
        self._leave(self._servers.configure(parse_name_servers(name_servers)))
        self.look_up_again()

    def look_up_again(self) -> None:
        """Have host names looked up before the next question."""
        self._looking_up = None

    async def close(self) -> None:
        """Look up no more."""
        if self._looking_up is not None:
            self._looking_up.cancel()
            await asyncio.gather(self._looking_up, return_exceptions=True)

    def origin(self, address: str) -> str:
        """Say which configured name an address comes from, for error messages."""
        return self._servers.origin(address)

    async def first(self, header: object, body: bytes = b"", *, code: int | None = None) -> Command:
        """Return the first answer that comes, whatever its code.

        Raises:
            NoNameServer: none answered; names each address and what happened there.
        """
        causes: list[str] = []
        found = await self.in_turn(header, lambda _address, answer: answer, causes, body, code=code)
        if found is None:
            raise nobody(causes)
        return found

    async def in_turn(
        self,
        header: object,
        accept: Callable[[str, Command], T | None],
        causes: list[str],
        body: bytes = b"",
        *,
        code: int | None = None,
    ) -> T | None:
        """Ask one after the other until an answer is accepted; stay with who gave it.

        Args:
            accept: returns what an answer means, None to go on; gets (address, answer).
            causes: takes what happened at those that did not answer.
        """
        await self._look_up_once()
        for address in self._servers.in_turn():
            try:
                answer = await self._pool.request(address, header, body, timeout_ms=self._timeout_ms, code=code)
            except ClientError as error:
                self._servers.failed(address)
                causes.append(f"{self.origin(address)}: {error}")
                continue
            found = accept(address, answer)
            if found is not None:
                self._servers.answered(address)
                return found
        return None

    async def everybody(
        self, header: object, body: bytes = b"", *, code: int | None = None
    ) -> dict[str, Command | ClientError]:
        """Ask all at once; return each one's answer or what went wrong there."""
        await self._look_up_once()
        addresses = sorted(self._servers.in_turn())

        async def ask(address: str) -> Command | ClientError:
            try:
                return await self._pool.request(address, header, body, timeout_ms=self._timeout_ms, code=code)
            except ClientError as error:
                return error

        return dict(zip(addresses, await asyncio.gather(*map(ask, addresses)), strict=True))

    async def _look_up_once(self) -> None:
        if not self._servers.names:
            return
        if self._looking_up is None:
            self._looking_up = asyncio.create_task(self._look_up(), name="orbitmq NameServer names")
        await asyncio.shield(self._looking_up)

    async def _look_up(self) -> None:
        for name in self._servers.names:
            self._leave(self._servers.resolved(name, await resolve(name)))

    def _leave(self, addresses: Iterable[str]) -> None:
        for address in addresses:
            self._pool.close_address(address)


def nobody(causes: Sequence[str]) -> NoNameServer:
    """Return the error for a question that nobody answered."""
    return NoNameServer(
        f"no NameServer answered: {'; '.join(causes)}. Check that one is running (orbitmq nameserver, mqnamesrv), "
        "that host and port are those of a NameServer and not of a broker, and that no firewall is between"
    )
