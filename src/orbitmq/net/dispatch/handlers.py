"""Handlers: one synchronous function per request, registered by the header type it answers.

    @handlers.on(GetRouteInfo)
    def get_route_info(service: NameServer, call: Call[GetRouteInfo]) -> Reply: ...

A handler sees values, returns a value and refuses by raising `Rejected`. It runs on the event loop and must not block;
one that has to wait returns `LATER` and calls `call.answer` when it knows.

A service that has grown gives each family of handlers only the part that it works on:

    HANDLERS: Handlers[Broker] = Handlers()
    HANDLERS.include(locks.handlers, lambda broker: broker.queue_locks)
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Final, Generic, Literal, NamedTuple, TypeVar, overload

from orbitmq.net.dispatch.peer import Peer
from orbitmq.net.dispatch.reply import Reply
from orbitmq.wire.command import Command
from orbitmq.wire.frame import FRAME_SIZE_MAX
from orbitmq.wire.header import bound_codes, request_type

__all__ = ["LATER", "Call", "Handler", "Handlers", "Later", "Reply"]
"""All that a module of handlers needs, the type of its answers included."""

S = TypeVar("S")
P = TypeVar("P")
H = TypeVar("H")


class Later(Enum):
    """The type of LATER."""

    LATER = "later"


LATER: Final = Later.LATER
"""A handler returns this instead of a Reply when it will call `call.answer` later."""


class Call(Generic[H]):
    """One request, as its handler sees it.

    `rewrite` is what becomes of an answer that comes later: a handler that asks another one in its place sets it.
    """

    __slots__ = ("_is_answered", "command", "connection", "header", "is_pending", "now_ms", "rewrite")

    def __init__(self, header: H, command: Command, connection: Peer, now_ms: int) -> None:
        self.header = header
        self.command = command
        self.connection = connection
        self.now_ms = now_ms
        self.is_pending = False
        self.rewrite: Callable[[Reply], Reply] | None = None
        self._is_answered = False

    @property
    def is_answered(self) -> bool:
        """True once `answer` was called."""
        return self._is_answered

    def answer(self, reply: Reply) -> None:
        """Answer a request whose handler returned LATER. Does nothing when the peer has left or waits for none."""
        assert not self._is_answered, "a request is answered once"
        self._is_answered = True
        if self.rewrite is not None:
            reply = self.rewrite(reply)
        self.connection.answer_later(self.command, reply, was_pending=self.is_pending)


Handler = Callable[[S, Call[H]], Reply | Literal[Later.LATER]]
BoundHandler = tuple[type, Handler[Any, Any], Any, int]
"""A header type, the handler that answers it, what that handler works on, and how many bytes a body may have."""


class _Entry(NamedTuple):
    header_type: type
    handler: Handler[Any, Any]
    part: Callable[[Any], Any] | None
    """Takes what the handler works on from the service; None: the service itself."""
    body_size_max: int | None


class Handlers(Generic[S]):
    """The handlers of one service, by request code.

    Args:
        body_size_max: bytes of a request's body, where its own handler does not say; a larger one is refused unread.
    """

    def __init__(self, *, body_size_max: int = FRAME_SIZE_MAX) -> None:
        self._entries: dict[int, _Entry] = {}
        self._body_size_max = body_size_max

    def on(self, *header_types: type[H], body_size_max: int | None = None) -> Callable[[Handler[S, H]], Handler[S, H]]:
        """Decorator: bind a function to every request code of `header_types`. Binding a code twice fails at import."""

        def bind(handler: Handler[S, H]) -> Handler[S, H]:
            for header_type in header_types:
                codes = [code for code in bound_codes() if request_type(code) is header_type]
                if not codes:
                    raise TypeError(f"{header_type.__name__} is bound to no request code")
                for code in codes:
                    self._enter(code, _Entry(header_type, handler, None, body_size_max))
            return handler

        return bind

    @overload
    def include(self, other: Handlers[S]) -> None: ...

    @overload
    def include(self, other: Handlers[P], part: Callable[[S], P]) -> None: ...

    def include(self, other: Handlers[Any], part: Callable[[S], Any] | None = None) -> None:
        """Take over every handler of `other`.

        Args:
            part: returns what those handlers work on, a part of this service; without it, they get the service itself.
        """
        for code, entry in other._entries.items():
            assert entry.part is None or part is None, "a part of a part"
            self._enter(code, entry if part is None else entry._replace(part=part))

    def bind(self, service: S) -> dict[int, BoundHandler]:
        """Return, by request code, each header type and handler with what the handler works on.

        Parts are taken here, once for each family: a request pays nothing for the choice.
        """
        parts: dict[Callable[[Any], Any] | None, Any] = {None: service}
        bound = {}
        sizes = self.body_sizes
        for code, (header_type, handler, part, _) in self._entries.items():
            if part is not None and part not in parts:
                parts[part] = part(service)
            bound[code] = header_type, handler, parts[part], sizes[code]
        return bound

    @property
    def body_sizes(self) -> dict[int, int]:
        """How many bytes the body of each request may have, by its code."""
        return {
            code: self._body_size_max if entry.body_size_max is None else entry.body_size_max
            for code, entry in self._entries.items()
        }

    @property
    def codes(self) -> tuple[int, ...]:
        """Every request code that has a handler."""
        return tuple(sorted(self._entries))

    def _enter(self, code: int, entry: _Entry) -> None:
        if code in self._entries:
            bound = self._entries[code].handler
            raise TypeError(f"request code {code} is handled by {getattr(bound, '__name__', bound)} already")
        self._entries[code] = entry
