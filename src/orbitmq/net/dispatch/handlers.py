"""Handlers: one synchronous function per request, registered by the header type it answers.

    @handlers.on(GetRouteInfo)
    def get_route_info(service: NameServer, call: Call[GetRouteInfo]) -> Reply: ...

A handler sees values, returns a value and refuses by raising `Rejected`. It runs on the event loop and must not block;
one that has to wait returns `LATER` and calls `call.answer` when it knows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, NamedTuple, TypeVar

from orbitmq.codes import ResponseCode
from orbitmq.wire.command import Command, encode_response
from orbitmq.wire.header import bound_codes, encode_header, request_type

if TYPE_CHECKING:
    from orbitmq.net.connection.connection import Connection

S = TypeVar("S")
H = TypeVar("H")


LARGE_BODY_SIZE = 32 * 1024
"""Bytes from which on a body is written from where it is, not copied behind its header first."""
_LENGTH_SIZE = 4


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


class Handlers(Generic[S]):
    """The handlers of one service, by request code."""

    def __init__(self) -> None:
        self._entries: dict[int, tuple[type, Handler[S, Any]]] = {}

    def on(self, *header_types: type[H]) -> Callable[[Handler[S, H]], Handler[S, H]]:
        """Decorator: bind a function to every request code of `header_types`. Binding a code twice fails at import."""

        def bind(handler: Handler[S, H]) -> Handler[S, H]:
            for header_type in header_types:
                codes = [code for code in bound_codes() if request_type(code) is header_type]
                if not codes:
                    raise TypeError(f"{header_type.__name__} is bound to no request code")
                for code in codes:
                    self._bind(code, header_type, handler)
            return handler

        return bind

    def include(self, other: Handlers[S]) -> None:
        """Take over every handler of `other`."""
        for code, (header_type, handler) in other._entries.items():
            self._bind(code, header_type, handler)

    def get(self, code: int) -> tuple[type, Handler[S, Any]] | None:
        """Return the header type and handler of a request code, None when there is none."""
        return self._entries.get(code)

    @property
    def codes(self) -> tuple[int, ...]:
        """Every request code that has a handler."""
        return tuple(sorted(self._entries))

    def _bind(self, code: int, header_type: type, handler: Handler[S, Any]) -> None:
        if code in self._entries:
            bound = self._entries[code][1]
            raise TypeError(f"request code {code} is handled by {getattr(bound, '__name__', bound)} already")
        self._entries[code] = (header_type, handler)


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
    return (len(head) - _LENGTH_SIZE + len(body)).to_bytes(_LENGTH_SIZE, "big") + head[_LENGTH_SIZE:], body
