"""An HTTP server for machines: GET only, whole answers, no keep-alive, pages made in slices. For /metrics and /healthz."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, cast
from urllib.parse import parse_qsl, urlsplit

from orbitmq.address import format_address
from orbitmq.errors import InvalidArgument, OrbitError
from orbitmq.net.limits import descriptor_limit
from orbitmq.net.listening import listen
from orbitmq.wire.slices import Slices

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"


class HttpResponse(NamedTuple):
    """A page's answer to one query."""

    body: bytes
    status: int = 200
    content_type: str = TEXT


@dataclass(frozen=True, slots=True)
class Page:
    """A page and the parameters that its query may have.

    Args:
        show: gets the query's parameters. Refuses bad ones by raising an OrbitError; a large answer is made in slices.
        parameters: their names; a query with another one is refused, because it would be answered otherwise than meant.
    """

    show: Callable[[Mapping[str, str]], HttpResponse | Slices[HttpResponse]]
    parameters: tuple[str, ...] = ()

    def __call__(self, query: Mapping[str, str]) -> HttpResponse | Slices[HttpResponse]:
        """Answer a query.

        Raises:
            InvalidArgument: the page has no such parameter.
        """
        for name in query:
            if name not in self.parameters:
                raise InvalidArgument("query", name, self._allowed())
        return self.show(query)

    def _allowed(self) -> str:
        return f"one of {', '.join(self.parameters)}" if self.parameters else "no parameter: this page has none"


log = logging.getLogger(__name__)

REQUEST_SIZE_MAX = 8192
"""Bytes of a request's line and headers; a GET has no body."""
REQUEST_MS = 5_000
"""A request must be whole after this long, and its answer read after as long again."""
CONNECTIONS_MAX = 256
"""Open connections. One more ends the oldest: requests are answered immediately, so only slow clients keep one long."""
DESCRIPTORS_SHARE = 16
"""They take this part of the process's file descriptors at most: the others belong to clients and files."""

_REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    500: "Internal Server Error",
    503: "Service Unavailable",
}
_END = b"\r\n\r\n"


class HttpServer:
    """Serves pages by path.

    Args:
        pages: by path, such as `/metrics`; `/` lists them when it is not one itself.
    """

    def __init__(self, pages: Mapping[str, Page]) -> None:
        self.sliced_pages = SlicedPages()
        self._pages = dict(pages)
        self._connections_max = _affordable_connections(descriptor_limit())
        self._listener: asyncio.Server | None = None
        self._connections: dict[_HttpConnection, None] = {}
        self._host = ""
        self._port = 0

    @property
    def address(self) -> str:
        """Where the server listens, as host:port."""
        return format_address(self._host, self._port)

    async def start(self, host: str, port: int) -> int:
        """Listen; return the bound port (0 lets the system choose one).

        Raises:
            ConfigError: no name service knows `host`.
            OSError: the address cannot be bound.
        """
        loop = asyncio.get_running_loop()
        # The loop accepts as many in one turn as wait, before the oldest are ended.
        backlog = self._connections_max
        self._listener = await listen(
            lambda: _HttpConnection(self, loop), "metricsAddress", host, port, backlog=backlog
        )
        self._host = host
        self._port = int(self._listener.sockets[0].getsockname()[1])
        return self._port

    async def close(self) -> None:
        """Stop listening and drop every connection."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        for connection in tuple(self._connections):
            connection.drop()

    def enter(self, connection: _HttpConnection) -> None:
        """Enter a new connection, and end the oldest one where that makes too many."""
        # Were newcomers refused instead, a few silent clients would keep a supervisor's probe out.
        if len(self._connections) >= self._connections_max:
            oldest = next(iter(self._connections))
            self.leave(oldest)
            oldest.drop()
        self._connections[connection] = None

    def leave(self, connection: _HttpConnection) -> None:
        """Forget a connection that ended."""
        self._connections.pop(connection, None)

    def answer(self, request: bytes) -> tuple[HttpResponse | Slices[HttpResponse], bool]:
        """Return the answer to a request, or the work of making it, and whether its body is wanted (not for HEAD)."""
        try:
            method, target, version = request.split(b"\r\n", 1)[0].decode("ascii").split(" ")
            url = urlsplit(target)
            query = dict(parse_qsl(url.query, keep_blank_values=True, max_num_fields=32))
        except ValueError:
            return HttpResponse(b"not an HTTP request\n", 400), True
        if not version.startswith("HTTP/1."):
            return HttpResponse(b"HTTP/1.1 is spoken here\n", 400), True
        if method not in ("GET", "HEAD"):
            return HttpResponse(b"only GET is answered here\n", 405), True
        return self._show(url.path, query), method == "GET"

    def _show(self, path: str, query: Mapping[str, str]) -> HttpResponse | Slices[HttpResponse]:
        page = self._pages.get(path)
        if page is None:
            known = "\n".join(sorted(self._pages)) + "\n"
            return HttpResponse(known.encode(), 200 if path == "/" else 404)
        try:
            return page(query)
        except Exception as error:
            return failure(error)


def _affordable_connections(descriptors: int) -> int:
    return min(CONNECTIONS_MAX, max(2, descriptors // DESCRIPTORS_SHARE)) if descriptors else CONNECTIONS_MAX


def failure(error: Exception) -> HttpResponse:
    """Return the answer where a page could not be made: the reason of a refusal, the name alone of an error of ours."""
    if isinstance(error, OrbitError):
        return HttpResponse(f"{error}\n".encode(), 400)
    log.error("a page failed", exc_info=error)
    return HttpResponse(f"{type(error).__name__}\n".encode(), 500)


class _HttpConnection(asyncio.Protocol):
    """One request, one answer, then the connection closes."""

    def __init__(self, server: HttpServer, loop: asyncio.AbstractEventLoop) -> None:
        self._server = server
        self._loop = loop
        self._request = bytearray()
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._is_asked = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._server.enter(self)
        self._deadline = self._loop.call_later(2 * REQUEST_MS / 1000, self.drop)

    def data_received(self, data: bytes) -> None:
        if self._transport is None or self._transport.is_closing() or self._is_asked:
            return
        self._request += data
        if self._request.find(_END, 0, REQUEST_SIZE_MAX) >= 0:
            self._is_asked = True
            self._answer(*self._server.answer(bytes(self._request)))
        elif len(self._request) > REQUEST_SIZE_MAX:
            self._write(HttpResponse(f"a request has at most {REQUEST_SIZE_MAX} bytes\n".encode(), 400), True)

    def connection_lost(self, _error: Exception | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._server.leave(self)

    def drop(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _answer(self, answer: HttpResponse | Slices[HttpResponse], with_body: bool) -> None:
        transport = self._transport
        assert transport is not None
        if isinstance(answer, HttpResponse):
            self._write(answer, with_body)
            return
        self._server.sliced_pages.begin(
            SlicedPage(
                answer,
                done=lambda made: self._write(made, with_body),
                failed=lambda error: self._write(failure(error), with_body),
                is_wanted=lambda: not transport.is_closing(),
            )
        )

    def _write(self, answer: HttpResponse, with_body: bool) -> None:
        assert self._transport is not None
        head = (
            f"HTTP/1.1 {answer.status} {_REASONS[answer.status]}\r\n"
            f"Content-Type: {answer.content_type}\r\n"
            f"Content-Length: {len(answer.body)}\r\n"
            "Cache-Control: no-store\r\n"
            "X-Content-Type-Options: nosniff\r\n"
            "Connection: close\r\n\r\n"
        )
        self._transport.write(head.encode() + (answer.body if with_body else b""))
        self._transport.close()


class SlicedPage(NamedTuple):
    """A page under way.

    Args:
        done: is given the answer.
        failed: is given what went wrong instead.
        is_wanted: False once the client is gone.
    """

    slices: Slices[HttpResponse]
    done: Callable[[HttpResponse], None]
    failed: Callable[[Exception], None]
    is_wanted: Callable[[], bool]


class SlicedPages:
    """Makes pages one after another, in the order in which they were asked for."""

    def __init__(self) -> None:
        self._pages: deque[SlicedPage] = deque()

    def begin(self, page: SlicedPage) -> None:
        """Make a page in the turns of the running loop to come."""
        self._pages.append(page)
        if len(self._pages) == 1:
            asyncio.get_running_loop().call_soon(self._step)

    def _step(self) -> None:
        page = self._pages[0]
        if not page.is_wanted() or self._is_done(page):
            page.slices.close()
            self._pages.popleft()
        if self._pages:
            asyncio.get_running_loop().call_soon(self._step)

    def _is_done(self, page: SlicedPage) -> bool:
        try:
            next(page.slices)
        except StopIteration as end:
            page.done(end.value)
        except Exception as error:
            page.failed(error)
        else:
            return False
        return True
