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

from collections.abc import Callable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, NamedTuple, TypeVar, overload

from orbitmq.codes import ResponseCode
from orbitmq.wire.command import Command, encode_response
from orbitmq.wire.frame import LENGTH
from orbitmq.wire.header import bound_codes, encode_header, request_type

if TYPE_CHECKING:
    from orbitmq.net.connection.connection import Connection

S = TypeVar("S")
P = TypeVar("P")
H = TypeVar("H")


LARGE_BODY_SIZE = 32 * 1024
"""Bytes from which on a body is written from where it is, not copied behind its header first."""


class Later(Enum):
    """The type of LATER."""

    LATER = "later"


LATER: Final = Later.LATER
"""What a handler returns that will call `call.answer` later."""


class Reply(NamedTuple):
    """The answer to a request: `header` is a typed header, `ext_fields` what no type describes."""

    code: int = ResponseCode.SUCCESS
    remark: str | None = None
    header: object | None = None
    body: bytes = b""
    ext_fields: Mapping[str, str] | None = None


class Call(Generic[H]):
    """One request on its way through a handler."""

    __slots__ = ("_is_answered", "command", "connection", "header", "is_parked", "now_ms")

    def __init__(self, header: H, command: Command, connection: Connection, now_ms: int) -> None:
        self.header = header
        self.command = command
        self.connection = connection
        self.now_ms = now_ms
        self.is_parked = False
        self._is_answered = False

    @property
    def is_answered(self) -> bool:
        """True once `answer` was called."""
        return self._is_answered

    def answer(self, reply: Reply) -> None:
        """Answer a request whose handler returned LATER. Does nothing when the peer has left or waits for none."""
        assert not self._is_answered, "a request is answered once"
        self._is_answered = True
        self.connection.answer_later(self, reply)


Handler = Callable[[S, Call[H]], Reply | Literal[Later.LATER]]
BoundHandler = tuple[type, Handler[Any, Any], Any]
"""A header type, the handler that answers it, and what that handler works on."""


class _Entry(NamedTuple):
    header_type: type
    handler: Handler[Any, Any]
    part: Callable[[Any], Any] | None
    """Takes what the handler works on from the service; None: the service itself."""


class Handlers(Generic[S]):
    """The handlers of one service, by request code."""

    def __init__(self) -> None:
        self._entries: dict[int, _Entry] = {}

    def on(self, *header_types: type[H]) -> Callable[[Handler[S, H]], Handler[S, H]]:
        """Decorator: bind a function to every request code of `header_types`. Binding a code twice fails at import."""

        def bind(handler: Handler[S, H]) -> Handler[S, H]:
            for header_type in header_types:
                codes = [code for code in bound_codes() if request_type(code) is header_type]
                if not codes:
                    raise TypeError(f"{header_type.__name__} is bound to no request code")
                for code in codes:
                    self._enter(code, _Entry(header_type, handler, None))
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
        for code, (header_type, handler, part) in self._entries.items():
            if part is not None and part not in parts:
                parts[part] = part(service)
            bound[code] = header_type, handler, parts[part]
        return bound

    @property
    def codes(self) -> tuple[int, ...]:
        """Every request code that has a handler."""
        return tuple(sorted(self._entries))

    def _enter(self, code: int, entry: _Entry) -> None:
        if code in self._entries:
            bound = self._entries[code].handler
            raise TypeError(f"request code {code} is handled by {getattr(bound, '__name__', bound)} already")
        self._entries[code] = entry


def encode_reply(command: Command, reply: Reply) -> bytes:
    """Return the frame that answers `command` with `reply`, in the header form of the request."""
    fields = reply.ext_fields
    if reply.header is not None:
        fields = encode_header(reply.header) if fields is None else {**fields, **encode_header(reply.header)}
    return encode_response(reply.code, command.opaque, reply.remark, fields, reply.body, command.serialize_type)


def encode_reply_parts(command: Command, reply: Reply) -> tuple[bytes, ...]:
    """Return the frame of `encode_reply`, a large body as a part of its own: a pull's megabytes are not copied again."""
    body = reply.body
    if len(body) < LARGE_BODY_SIZE:
        return (encode_reply(command, reply),)
    head = encode_reply(command, reply._replace(body=b""))
    # The head was encoded as a whole frame without a body: only its length has to be written anew.
    return LENGTH.pack(len(head) - LENGTH.size + len(body)) + head[LENGTH.size :], body
