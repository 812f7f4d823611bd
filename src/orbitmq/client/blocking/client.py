"""The base of the blocking clients: a client on a loop thread, as a context manager.

Each object owns a thread with a loop, on which the asyncio class of the same name does the work. Methods wait for
their results and may be called from any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Generic, Self, TypeVar

from orbitmq.client.base import Client
from orbitmq.client.loop_thread import LoopThread

C = TypeVar("C", bound=Client)


class BlockingClient(Generic[C]):
    """A client and the thread on whose loop it works.

    Args:
        make: returns the client; is called on the loop's thread.
        name: the thread's.
    """

    def __init__(self, make: Callable[[], C], name: str) -> None:
        self._loop_thread = LoopThread(f"orbitmq {name}")
        try:
            self._client: C = self._loop_thread.apply(make)
        except BaseException:
            self._loop_thread.stop()
            raise

    def open(self) -> None:
        """Begin; `with` does it by itself."""
        self._loop_thread.call(self._client.open())

    def close(self) -> None:
        """Finish what is under way, leave, and end the thread. Does nothing the second time."""
        if not self._loop_thread.is_running:
            return
        try:
            self._loop_thread.call(self._client.close())
        finally:
            self._loop_thread.stop()

    def use_name_servers(self, name_servers: str | Iterable[str]) -> None:
        """Ask other NameServers from now on."""
        self._loop_thread.apply(self._client.use_name_servers, name_servers)

    def __enter__(self) -> Self:
        try:
            self.open()
        except BaseException:
            self._loop_thread.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
