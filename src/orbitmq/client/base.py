"""The base of Producer, PushConsumer and PullConsumer: one session, opened once, closed when `async with` ends."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from orbitmq.client.session.arguments import instance
from orbitmq.client.session.session import ClientSession
from orbitmq.client.session.validation import checked
from orbitmq.errors import ClientError


@checked(init={"session": instance(ClientSession, allowed="a ClientSession")})
class Client(ABC):
    """A client as its user holds it: an async context manager over a `ClientSession`."""

    def __init__(self, session: ClientSession) -> None:
        self._session = session

    @abstractmethod
    async def open(self) -> None:
        """Begin; `async with` does it by itself."""

    @abstractmethod
    async def close(self) -> None:
        """Finish what is under way, leave, and close the connections. Does nothing the second time."""

    def use_name_servers(self, name_servers: str | Iterable[str]) -> None:
        """Ask other NameServers from now on; known routes stay in use until the new ones say otherwise."""
        self._session.name_servers.configure(name_servers)

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _check_loop(self) -> None:
        self._session.owning_loop.check()

    def _check_not_over(self) -> None:
        if self._session.is_over:
            raise ClientError(f"the {type(self).__name__} is closed, for good: make a new one")

    def _check_open(self) -> None:
        if not self._session.is_open:
            name = type(self).__name__
            raise ClientError(f"the {name} is not open: use 'async with {name}(...)', or await its open()")
        self._session.owning_loop.check()
