"""A client's requests to its NameServers: to one after the other until one answers, or to all of them.

Host names of the list are resolved before the first request, and again after `resolve_again`; the connections to
addresses that a name no longer stands for are closed.

Source: Java NettyRemotingClient.getAndCreateNameserverChannel.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import NamedTuple, TypeVar

from orbitmq.address import parse_name_servers
from orbitmq.client.routing.nameserver_list import NameServerList
from orbitmq.codes import ResponseCode
from orbitmq.errors import ClientError, HeaderError, NoNameServer, RemoteRefused, RouteNotFound
from orbitmq.model.route import TopicRoute
from orbitmq.net.name_lookup import resolve
from orbitmq.net.pool import ConnectionPool
from orbitmq.wire.bodies.route import decode_route
from orbitmq.wire.command import Command
from orbitmq.wire.headers.nameserver import GetRouteInfo

T = TypeVar("T")

TIMEOUT_MS = 3_000


class NameServerClient:
    """Requests to the NameServers of one client.

    Args:
        name_servers: `["host:port", ...]` or `"host:port;host:port"`.
        pool: the connections that carry the requests; the caller closes it.
        random: chooses the NameServer to begin with.
        timeout_ms: how long one NameServer has to answer before the next one is asked.
    """

    def __init__(
        self,
        name_servers: str | Iterable[str],
        pool: ConnectionPool,
        *,
        random: Random | None = None,
        timeout_ms: int = TIMEOUT_MS,
    ) -> None:
        self._list = NameServerList(parse_name_servers(name_servers), random or Random())
        self._pool = pool
        self._timeout_ms = timeout_ms
        self._resolving: asyncio.Task[None] | None = None

    @property
    def configured(self) -> tuple[str, ...]:
        """The NameServers as they were given."""
        return self._list.configured

    @property
    def addresses(self) -> list[str]:
        """The addresses in the order in which they will be asked."""
        return self._list.addresses

    def configure(self, name_servers: str | Iterable[str]) -> None:
        """Ask other NameServers from now on."""
        self._close_connections(self._list.configure(parse_name_servers(name_servers)))
        self.resolve_again()

    def resolve_again(self) -> None:
        """Have host names resolved before the next request."""
        self._resolving = None

    async def close(self) -> None:
        """Stop resolving."""
        if self._resolving is not None:
            self._resolving.cancel()
            await asyncio.gather(self._resolving, return_exceptions=True)

    def describe(self, address: str) -> str:
        """Return an address with the configured name that it comes from, for error messages."""
        return self._list.describe(address)

    async def ask(self, header: object, body: bytes = b"", *, code: int | None = None) -> Command:
        """Ask one NameServer after the other until one answers; return its answer, whatever its code.

        Raises:
            NoNameServer: none answered; names each address and what happened there.
        """
        causes: list[str] = []
        found = await self.ask_until(header, lambda _address, answer: answer, causes, body, code=code)
        if found is None:
            raise no_name_server(causes)
        return found

    async def ask_until(
        self,
        header: object,
        accept: Callable[[str, Command], T | None],
        causes: list[str],
        body: bytes = b"",
        *,
        code: int | None = None,
    ) -> T | None:
        """Ask one NameServer after the other until an answer is accepted; ask that one first the next time.

        Args:
            accept: returns what an answer means, None to go on; gets (address, answer).
            causes: a text is added for each NameServer that did not answer.
        """
        await self._resolve_once()
        for address in self._list.addresses:
            try:
                answer = await self._pool.request(address, header, body, timeout_ms=self._timeout_ms, code=code)
            except ClientError as error:
                self._list.mark_failed(address)
                causes.append(f"{self.describe(address)}: {error}")
                continue
            found = accept(address, answer)
            if found is not None:
                self._list.mark_answered(address)
                return found
        return None

    async def ask_all(
        self, header: object, body: bytes = b"", *, code: int | None = None
    ) -> dict[str, Command | ClientError]:
        """Ask all NameServers at the same time; return each one's answer or what went wrong there."""
        await self._resolve_once()
        addresses = sorted(self._list.addresses)

        async def ask_one(address: str) -> Command | ClientError:
            try:
                return await self._pool.request(address, header, body, timeout_ms=self._timeout_ms, code=code)
            except ClientError as error:
                return error

        return dict(zip(addresses, await asyncio.gather(*map(ask_one, addresses)), strict=True))

    async def _resolve_once(self) -> None:
        if not self._list.names:
            return
        if self._resolving is None:
            self._resolving = asyncio.create_task(self._resolve(), name="orbitmq NameServer names")
        # Shielded: a caller that gives up must not end the look-up for other callers of the same one.
        await asyncio.shield(self._resolving)

    async def _resolve(self) -> None:
        for name in self._list.names:
            self._close_connections(self._list.set_resolved(name, await resolve(name)))

    def _close_connections(self, addresses: Iterable[str]) -> None:
        for address in addresses:
            self._pool.close_address(address)


def no_name_server(causes: Sequence[str]) -> NoNameServer:
    """Return the error for a request that no NameServer answered."""
    return NoNameServer(
        f"no NameServer answered: {'; '.join(causes)}. Check that one is running (orbitmq nameserver, mqnamesrv), "
        "that host and port are those of a NameServer and not of a broker, and that no firewall is between"
    )


class RouteAnswer(NamedTuple):
    """A topic's route, and the NameServer that told it."""

    route: TopicRoute
    teacher: str


async def query_route(name_servers: NameServerClient, topic: str) -> RouteAnswer:
    """Ask for a topic's route.

    A NameServer that does not know the topic is passed over: brokers register with each one on its own, so the next
    one may know it.

    Raises:
        RouteNotFound: those that answered do not know the topic.
        NoNameServer: none gave a usable answer.
    """
    causes: list[str] = []
    ignorant: list[str] = []

    def accept(address: str, answer: Command) -> RouteAnswer | None:
        teacher = name_servers.describe(address)
        if answer.code == ResponseCode.SUCCESS:
            return RouteAnswer(_decode(answer, address), teacher)
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            ignorant.append(teacher)
        else:
            causes.append(str(RemoteRefused(answer.code, answer.remark, teacher)))
        return None

    header = GetRouteInfo(topic=topic, accept_standard_json_only=True)
    found = await name_servers.ask_until(header, accept, causes)
    if found is not None:
        return found
    if ignorant:
        raise RouteNotFound(
            f"topic {topic} has no route: {', '.join(ignorant)} do{'es' if len(ignorant) == 1 else ''} not know it"
            f"{'; ' + '; '.join(causes) if causes else ''}. Create it (orbitmq topic create {topic}), or check that "
            "its broker is up and registered there"
        )
    raise no_name_server(causes)


def _decode(answer: Command, address: str) -> TopicRoute:
    try:
        return decode_route(answer.body)
    except HeaderError as error:
        raise NoNameServer(f"{address} answered no route: {error}. Is it a NameServer?") from error
