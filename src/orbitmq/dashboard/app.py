"""The dashboard's server: its pages over one administrator's client, and live tails of topics.

It listens on this machine alone and has no login: all that reach the port see what the NameServers show. Names of other hosts in
a request are refused, so that no page of another site can read it through a browser.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import Route

from orbitmq.address import format_address
from orbitmq.admin import AdminClient
from orbitmq.client.pull_consumer import PullConsumer
from orbitmq.dashboard import groups, messages, overview, topics
from orbitmq.dashboard.answers import HEADERS, Page, answer, endpoint, error_page
from orbitmq.dashboard.reading import tail
from orbitmq.errors import ConfigError, OrbitError
from orbitmq.net.security.client_security import ClientSecurity

log = logging.getLogger(__name__)

LOOPBACK = ("127.0.0.1", "::1", "localhost")
TAILS_MAX = 8
"""Live tails at a time: each reads all that comes to its topic."""
_STATIC = Path(__file__).parent / "static"
_FILES = {"style.css": "text/css", "tail.js": "text/javascript"}


class Dashboard:
    """The server: `await start()`, then it answers at `address` until `await stop()`.

    Args:
        name_servers: `"host:port;host:port"`.
        host: one of `LOOPBACK`.
        port: 0 lets the system choose one.
        timeout_ms: for each request to the cluster.

    Raises:
        ConfigError: the host is reached from other machines.
    """

    def __init__(
        self,
        name_servers: str,
        *,
        host: str = "127.0.0.1",
        port: int = 8080,
        timeout_ms: int = 3_000,
        security: ClientSecurity | None = None,
    ) -> None:
        if host not in LOOPBACK:
            raise ConfigError("host", host, "127.0.0.1, ::1 or localhost: there is no login yet")
        given: dict[str, Any] = {} if security is None else security._asdict()
        self._host, self._port = host, port
        self._admin = AdminClient(name_servers, timeout_ms=timeout_ms, **given)
        readers = partial(PullConsumer, name_servers=name_servers, **given)
        app = make_app(name_servers, self._admin, readers)
        config = uvicorn.Config(app, host=host, port=port, log_config=None, access_log=False, lifespan="off")
        self._server = uvicorn.Server(config)
        self._serving: asyncio.Task[None] | None = None
        self.address = ""

    async def start(self) -> None:
        """Listen.

        Raises:
            OSError: the port cannot be bound.
        """
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        listener = socket.create_server((self._host, self._port), family=family)
        self.address = format_address(self._host, listener.getsockname()[1])
        # `serve` would take over the signals, which are the command's.
        self._serving = asyncio.get_running_loop().create_task(self._server._serve([listener]))
        while not self._server.started and not self._serving.done():
            await asyncio.sleep(0.01)
        if self._serving.done():
            self._serving.result()

    async def stop(self) -> None:
        """End live tails, and listen no more."""
        self._server.should_exit = self._server.force_exit = True
        if self._serving is not None:
            await asyncio.gather(self._serving, return_exceptions=True)
        await self._admin.close()


def make_app(name_servers: str, admin: AdminClient, readers: Any) -> Starlette:
    """Return the application.

    Args:
        readers: makes a consumer that reads for pages, given its group.
    """
    routes = [
        Route("/", endpoint(overview.overview)),
        Route("/topics", endpoint(topics.topics)),
        Route("/topics/{topic}", endpoint(topics.topic)),
        Route("/topics/{topic}/tail", _tail),
        Route("/topics/{topic}/messages/{id}", endpoint(messages.message)),
        Route("/groups", endpoint(groups.groups)),
        Route("/groups/{group}", endpoint(groups.group)),
        Route("/messages", endpoint(messages.messages)),
        Route("/static/{name}", _static),
    ]
    hosts = [*LOOPBACK[::2], "[::1]"]
    app = Starlette(
        routes=routes,
        exception_handlers={HTTPException: _refuse},
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=hosts)],
    )
    app.state.name_servers, app.state.admin, app.state.readers = name_servers, admin, readers
    app.state.tails = asyncio.Semaphore(TAILS_MAX)
    return app


async def _refuse(request: Request, error: Exception) -> Response:
    """Answer a path that there is not, or a method that pages do not take."""
    assert isinstance(error, HTTPException)
    page = Page("error.html", "Error", {"error": f"{request.url.path}: {error.detail}"}, error.status_code)
    return answer(request, page)


async def _static(request: Request) -> Response:
    kind = _FILES.get(request.path_params["name"])
    if kind is None:
        return Response("no such file", 404, HEADERS)
    return FileResponse(_STATIC / request.path_params["name"], media_type=kind, headers=dict(HEADERS))


async def _tail(request: Request) -> Response:
    """Stream what comes to a topic, as server-sent events."""
    if request.app.state.tails.locked():
        return answer(request, error_page(OrbitError(f"{TAILS_MAX} live tails run already: close one")))
    topic, tag = request.path_params["topic"], request.query_params.get("tag", "")
    headers = {**HEADERS, "content-type": "text/event-stream"}
    return StreamingResponse(_events(request, topic, tag), headers=headers)


async def _events(request: Request, topic: str, tag: str) -> AsyncIterator[bytes]:
    async with request.app.state.tails:
        try:
            async for found in tail(request.app.state.readers, topic, tag):
                if await request.is_disconnected():
                    return
                yield b"data: " + orjson.dumps(found) + b"\n\n"
        except OrbitError as error:
            yield b"event: problem\ndata: " + orjson.dumps(str(error)) + b"\n\n"
