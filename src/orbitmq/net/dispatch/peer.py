"""The other end of a connection, as handlers and fast paths see it.

It is a protocol, so that dispatch knows nothing of sockets, and so that a test can answer a call without one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from orbitmq.net.counters import Counters
from orbitmq.net.dispatch.reply import Reply
from orbitmq.net.session import Waiter
from orbitmq.wire.command import Command


class Peer(Protocol):
    """The sender of a request: where its answers go."""

    @property
    def id(self) -> int:
        """A number that no other connection of the same server has had."""
        ...

    @property
    def remote(self) -> str:
        """The peer's address, as host:port."""
        ...

    @property
    def local_port(self) -> int:
        """The port of ours that it is connected to, 0 when unknown."""
        ...

    @property
    def counters(self) -> Counters:
        """What the server counts."""
        ...

    pending_count: int
    """Requests that will be answered later and have not been yet. Whatever holds one counts it here."""

    waited_ms: int
    """How long the request that is being answered has waited here for its turn."""

    def __hash__(self) -> int:
        """Connections are keys of tables: each is equal to itself alone."""
        ...

    def now_ms(self) -> int:
        """Read the server's clock."""
        ...

    def has_room(self, size: int) -> bool:
        """Return True if an answer of so many bytes may go out now: the peer reads, and others do, too."""
        ...

    def send_oneway(self, header: object, body: bytes = b"", *, code: int | None = None) -> None:
        """Send a one-way request; nothing happens when the peer has left."""
        ...

    def send_request(self, command: Command, waiter: Waiter, *, timeout_ms: int) -> None:
        """Send a request; `waiter` is told the answer, or why there is none, in this very call when the peer has left."""
        ...

    def answer_later(self, command: Command, reply: Reply, *, was_pending: bool) -> None:
        """Send the answer of a handler that returned LATER; nothing happens when the peer has left."""
        ...

    def work_on(self, work: Iterator[None]) -> None:
        """Take a step of a request's work in each turn of this connection; its next requests wait until all is done."""
        ...

    def answer_held(self, answers: list[bytes]) -> None:
        """Send answers that a fast path held back; it raised `pending_count` by one for them."""
        ...
