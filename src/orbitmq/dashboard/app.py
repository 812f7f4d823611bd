"""The dashboard's server: pages over a cluster's clients, changes, live tails, and who may use them.

On this machine alone it needs no login. Where other machines reach it, users log in. Names of other hosts in a request are refused,
so that no page of another site can read it through a browser.
"""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.convertors import register_url_convertor
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from orbitmq.address import format_address, is_wildcard
from orbitmq.admin.cluster_clients import ClusterClients
from orbitmq.audit import AuditLogging, LogOfChanges
from orbitmq.body_schemas import Schema
from orbitmq.dashboard import (
    accounts,
    brokers,
    dead_letters,
    doctor,
    groups,
    messages,
    name_servers,
    online,
    overview,
    topics,
    waiting,
)
from orbitmq.dashboard.answers import (
    HEADERS,
    AnyText,
    Page,
    Show,
    answer,
    answer_page,
    dump_json,
    error_page,
    is_json_wanted,
    link,
    quoted_path,
)
from orbitmq.dashboard.changes import Change, answer_change, csrf_problem, refusal_page
from orbitmq.dashboard.connections import IDLE_S, LimitedProtocol, connections_max
from orbitmq.dashboard.login_queue import LoginQueue, TooManyLogins
from orbitmq.dashboard.reading import tail
from orbitmq.dashboard.requests import is_click, is_of_another_site, read_form
from orbitmq.dashboard.sessions import COOKIE, Attempts, Role, Session, Sessions
from orbitmq.dashboard.users import NAME_LENGTH_MAX, PASSWORD_LENGTH_MAX, Logins, session_of
from orbitmq.dashboard.watching import Watch
from orbitmq.errors import ConfigError, OrbitError
from orbitmq.net.listening import bound_socket
from orbitmq.net.loop import stopped_on_failure
from orbitmq.net.security.client_security import UNSECURED, ClientSecurity

log = logging.getLogger(__name__)

LOOPBACK = ("127.0.0.1", "::1", "localhost")
STREAMS_MAX = 8
"""Live tails, exports of dead letters and resends of them at a time: each reads whole messages as fast as brokers give them."""
STREAMS_OF_A_SESSION = 2
"""Of a user who has logged in."""
_STATIC = Path(__file__).parent / "static"
_FILES = {"style.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}
_HOST_NAME = re.compile(r"(\*\.)?[a-zA-Z0-9_-]+(\.[a-zA-Z0-9_-]+)*|\[[0-9a-fA-F:]+\]")
"""Not `*`: under any name, a page of another site could read the dashboard through a browser (DNS rebinding)."""
_FAILED_LOGIN_S = 0.5
_QUEUE_S = 2
"""How long the queue of logins takes, about."""
_OTHER_SITE = "another site has sent this: open the page itself"
_WRONG = "the name or the password is wrong"

register_url_convertor("any", AnyText())
PAGES: dict[str, Show] = {
    "/": overview.overview,
    "/topics": topics.topics,
    "/topics/{topic}": topics.topic,
    "/topics/{topic}/messages/{id}": messages.message,
    "/groups": groups.groups,
    "/groups/{group}": groups.group,
    "/groups/{group}/members/{client:path}": online.member,
    "/messages": messages.messages,
    "/dead-letters": dead_letters.dead_letter_groups,
    "/dead-letters/{group}": dead_letters.dead_letters,
    "/waiting": waiting.waiting,
    "/brokers/{broker}": brokers.broker,
    "/name-servers": name_servers.name_servers,
    "/clients": online.clients,
    "/users": accounts.accounts,
    "/doctor": doctor.doctor,
}
SEARCHES = (messages.messages, messages.message, dead_letters.dead_letters)
"""Pages that may read many bodies."""
SEARCHES_AT_A_TIME, SEARCHES_MAX = 2, 16
SEARCHES_OF_A_SESSION = 4
"""Of a user who has logged in: those of one user leave room for others'."""
CHANGES: tuple[Change, ...] = (
    *topics.CHANGES,
    *groups.CHANGES,
    *messages.CHANGES,
    *dead_letters.CHANGES,
    *brokers.CHANGES,
    *accounts.CHANGES,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardOptions:
    """How the dashboard is served.

    Args:
        host: to listen on; one that other machines reach needs `logins`.
        port: 0 lets the system choose one.
        hosts: names by which browsers may reach it, besides the host and this machine's own.
        logins: who may use it; None: all who reach the port.
        is_read_only: nothing is changed, whatever a user's role is.
        audit: takes a record of every change.
        certificate: for HTTPS, with its private key; None: HTTP.
        schemas: what decodes the bodies of a topic, by its name.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    hosts: Sequence[str] = ()
    logins: Logins | None = None
    is_read_only: bool = False
    audit: LogOfChanges | None = None
    certificate: Path | None = None
    private_key: Path | None = None
    schemas: Mapping[str, Schema] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.host not in LOOPBACK and self.logins is None:
            raise ConfigError(
                "host", self.host, "127.0.0.1, ::1 or localhost without a login; with --users or --cluster-users any"
            )
        for name in self.hosts:
            if not _HOST_NAME.fullmatch(name):
                raise ConfigError(
                    "hosts", name, "a host name without a port, as mq.example, or *.example for all below it"
                )
        if (self.certificate is None) != (self.private_key is None):
            missing = "private_key" if self.certificate else "certificate"
            raise ConfigError(missing, "", "a file, since the other half of the pair has one")


class Dashboard:
    """The server: `await start()`, then it answers at `address` until `await stop()`.

    Args:
        name_servers: `"host:port;host:port"`.
        timeout_ms: for each request to the cluster.
        security: what its own requests are signed and encrypted with.
    """

    def __init__(
        self,
        name_servers: str,
        options: DashboardOptions = DashboardOptions(),  # it is frozen
        *,
        timeout_ms: int = 3_000,
        security: ClientSecurity | None = None,
    ) -> None:
        self._options = options
        self._clients = ClusterClients(name_servers, timeout_ms=timeout_ms, security=security or UNSECURED)
        self._app = make_app(self._clients, options)
        config = uvicorn.Config(
            self._app,
            host=options.host,
            port=options.port,
            log_config=None,
            log_level="warning",  # its starts and ends are ours to tell
            access_log=False,
            lifespan="off",
            server_header=False,
            http=LimitedProtocol,
            timeout_keep_alive=IDLE_S,
            backlog=connections_max(),
            ssl_certfile=options.certificate,
            ssl_keyfile=options.private_key,
        )
        self._server = uvicorn.Server(config)
        self._serving: asyncio.Task[None] | None = None
        self.address = ""
        if options.host not in LOOPBACK and options.certificate is None:
            log.warning(
                "passwords and messages travel in clear: give a certificate, or put a proxy with TLS before %s",
                options.host,
            )

    @property
    def url(self) -> str:
        """Where browsers find it."""
        return f"{'http' if self._options.certificate is None else 'https'}://{self.address}/"

    async def start(self) -> None:
        """Listen.

        Raises:
            OSError: the port cannot be bound.
        """
        host = self._options.host
        listener = bound_socket(host, self._options.port)
        self.address = format_address(host, listener.getsockname()[1])
        self._serving = asyncio.get_running_loop().create_task(self._serve(listener))
        async with stopped_on_failure(self.stop):
            while not self._server.started and not self._serving.done():
                await asyncio.sleep(0.01)
            if self._serving.done():
                self._serving.result()
        self._app.state.watch.start()

    async def _serve(self, listener: socket.socket) -> None:
        with listener:
            await self._server._serve([listener])  # `serve` would take over the signals, which are the command's

    async def stop(self) -> None:
        """End live tails and sessions, and listen no more."""
        await self._app.state.watch.stop()
        self._server.should_exit = self._server.force_exit = True
        if self._serving is not None:
            await asyncio.gather(self._serving, return_exceptions=True)
        for session in self._app.state.sessions.all():
            await _end(self._app, session)
        await self._clients.close()


def _routed(path: str) -> str:
    """Return a path for the router, whose ids of messages and clients may be any text."""
    return path.replace("{id}", "{id:any}").replace("{client:path}", "{client:any}")


def make_app(clients: ClusterClients, options: DashboardOptions) -> Starlette:
    """Return the application over a cluster's clients."""
    routes = [
        *(Route(_routed(path), _page(show)) for path, show in PAGES.items()),
        *(Route(_routed(change.path), _change(change), methods=["POST"]) for change in CHANGES),
        Route("/topics/{topic}/tail", _with_session(_tail, has_links=False)),
        Route("/dead-letters/{group}/export", _with_session(_export, has_links=False)),
        Route("/login", _login, methods=["GET", "POST"]),
        Route("/logout", _with_session(_logout), methods=["POST"]),
        Route("/static/{name}", _static),
    ]
    hosts = [*LOOPBACK[::2], "[::1]", *(name.lower() for name in options.hosts)]
    if options.host not in LOOPBACK and not is_wildcard(options.host):
        hosts.append(options.host)
    app = Starlette(
        routes=routes,
        exception_handlers={HTTPException: _refuse, ClientDisconnect: _forget, Exception: _fail},
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False)],
    )
    state = app.state
    state.clients, state.logins, state.audit = clients, options.logins, options.audit or AuditLogging()
    state.is_read_only, state.is_secure = options.is_read_only, options.certificate is not None
    state.watch, state.schemas = Watch(clients), options.schemas
    state.streams, state.searches, state.searching = [], [], asyncio.Semaphore(SEARCHES_AT_A_TIME)
    state.login_queue = LoginQueue(1 if options.logins is None else options.logins.at_a_time)
    state.sessions, state.attempts = Sessions[ClusterClients](), Attempts()
    role = Role.READER if options.is_read_only else Role.ADMIN
    state.everyone = Session(user="local", role=role, csrf=secrets.token_urlsafe(32), clients=clients)
    return app


Answer = Callable[[Request], Awaitable[Response]]


def _page(show: Show) -> Answer:
    async def handle(request: Request) -> Response:
        return await answer_page(request, show)

    async def search(request: Request) -> Response:
        state, session = request.app.state, request.state.session
        is_full = len(state.searches) >= SEARCHES_MAX
        if is_full or (state.logins is not None and state.searches.count(session) >= SEARCHES_OF_A_SESSION):
            whose, count = ("", SEARCHES_MAX) if is_full else (" of this session", SEARCHES_OF_A_SESSION)
            problem = f"{count} searches{whose} run or wait already: try again in a few seconds"
            return answer(request, Page("error.html", "Error", {"error": problem}, 503))
        state.searches.append(session)
        try:
            async with state.searching:
                return await answer_page(request, show)
        finally:
            state.searches.remove(session)

    return _with_session(search if show in SEARCHES else handle)


def _change(change: Change) -> Answer:
    async def handle(request: Request) -> Response:
        return await answer_change(request, change, request.state.session)

    async def handle_stream(request: Request) -> Response:
        if (refusal := _stream_refusal(request)) is not None:
            return refusal
        with _counted(request.app, request.state.session):
            return await handle(request)

    return _with_session(handle_stream if change in dead_letters.CHANGES else handle)


def _with_session(handle: Answer, *, has_links: bool = True) -> Answer:
    """Answer only who has a session; others are sent to the login. What a page of another site asks for is refused.

    Args:
        has_links: a link on another site may lead to it, once a user follows it.
    """

    async def handle_with_session(request: Request) -> Response:
        if is_of_another_site(request) and not (has_links and request.method != "POST" and is_click(request)):
            return refusal_page(request, _OTHER_SITE)
        try:
            session = await session_of(request)
        except OrbitError as error:
            return answer(request, error_page(error))
        if session is not None:
            request.state.session = session
            return await handle(request)
        if is_json_wanted(request) or request.method != "GET":
            return answer(request, Page("error.html", "Error", {"error": "log in first: /login"}, 401))
        target = quoted_path(request) + (f"?{request.url.query}" if request.url.query else "")
        return RedirectResponse(link("login", to=target), 303, HEADERS)

    return handle_with_session


async def _login(request: Request) -> Response:
    """Show the form, or open a session."""
    target = request.query_params.get("to", "/")
    if request.method == "GET" or request.app.state.logins is None:
        return answer(request, _login_page(target))
    if is_of_another_site(request):
        return refusal_page(request, _OTHER_SITE)
    try:
        form = await read_form(request)
        target = _own_path(form.raw("to"))
        name, password = form.raw("name", NAME_LENGTH_MAX).strip(), form.raw("password", PASSWORD_LENGTH_MAX)
        token = await _log_in(request, name, password)
    except _TooOften as refusal:
        response = answer(request, _login_page(target, str(refusal), status=429))
        response.headers["retry-after"] = str(refusal.wait_s)
        return response
    except _LoginRefused as refusal:
        await asyncio.sleep(_FAILED_LOGIN_S)
        return answer(request, _login_page(target, str(refusal), status=403))
    except OrbitError as error:
        return answer(request, error_page(error))
    response = RedirectResponse(target, 303, HEADERS)
    response.set_cookie(COOKIE, token, httponly=True, samesite="lax", secure=request.app.state.is_secure)
    return response


class _LoginRefused(OrbitError):
    """A login that failed, with what the user is told."""


class _TooOften(_LoginRefused):
    """A login that may be tried again after some seconds."""

    def __init__(self, text: str, wait_s: int) -> None:
        super().__init__(text)
        self.wait_s = wait_s


async def _log_in(request: Request, name: str, password: str) -> str:
    """Open a session, and return the secret of its cookie.

    Raises:
        _LoginRefused: the name and the password do not belong together, or were tried too often.
        OrbitError: the cluster cannot be asked.
    """
    state, now_ms = request.app.state, _now_ms()
    address = request.client.host if request.client else ""
    attempts: Attempts = state.attempts
    if wait_ms := attempts.wait_ms(name, address, now_ms):
        text = "too many logins with this name or from this address have failed: try again in a minute"
        raise _TooOften(text, -(-wait_ms // 1000))
    attempts.failed(name, address, now_ms)
    try:
        async with state.login_queue.turn(address, is_known=attempts.is_known(name, address)):
            found = await state.logins.check(name, password)
    except TooManyLogins as error:
        attempts.forgive(name, address)
        raise _TooOften(str(error), _QUEUE_S) from None
    except OrbitError:
        attempts.forgive(name, address)
        raise
    if found is None:
        log.warning("login of %r from %s failed", name, address or "?")
        raise _LoginRefused(_WRONG)
    attempts.succeeded(name, address)
    session = Session(
        user=found.name,
        role=Role.READER if state.is_read_only else found.role,
        csrf=secrets.token_urlsafe(32),
        clients=found.clients or state.clients,
        login=found,
        is_super=found.is_super,
    )
    token = secrets.token_urlsafe(32)
    for ended in state.sessions.add(token, session, now_ms):
        await _end(request.app, ended)
    log.info("%s has logged in as %s", found.name, session.role)
    return token


def _login_page(target: str, problem: str | None = None, status: int = 200) -> Page:
    return Page("login.html", "Log in", {"to": _own_path(target), "problem": problem}, status)


def _own_path(target: str) -> str:
    """Return a path of ours: a link to the login must not lead to another site."""
    is_ours = target.startswith("/") and not target.startswith(("//", "/\\")) and target.isprintable()
    return target if is_ours else "/"


async def _logout(request: Request) -> Response:
    try:
        form = await read_form(request)
    except OrbitError as error:
        return answer(request, error_page(error))
    if csrf_problem(request, request.state.session, form) is None:
        ended = request.app.state.sessions.remove(request.cookies.get(COOKIE))
        if ended is not None:
            await _end(request.app, ended)
    response = RedirectResponse("/login", 303, HEADERS)
    response.delete_cookie(COOKIE)
    return response


async def _end(app: Starlette, session: Session[ClusterClients]) -> None:
    if session.clients is not app.state.clients:
        await session.clients.close()


async def _refuse(request: Request, error: Exception) -> Response:
    """Answer a path that there is not, or a method that pages do not take."""
    assert isinstance(error, HTTPException)
    page = Page("error.html", "Error", {"error": f"{request.url.path}: {error.detail}"}, error.status_code)
    return answer(request, page)


async def _forget(_request: Request, _error: Exception) -> Response:
    """End a request whose client has gone: the answer is not sent any more."""
    return Response(status_code=400)


async def _fail(request: Request, error: Exception) -> Response:
    """Answer a request in which the dashboard itself has failed; the server logs the error."""
    text = f"the dashboard has failed at this ({type(error).__name__}): its log says more"
    return answer(request, Page("error.html", "Error", {"error": text}, 500))


async def _static(request: Request) -> Response:
    kind = _FILES.get(request.path_params["name"])
    if kind is None:
        return Response("no such file", 404, HEADERS)
    return FileResponse(_STATIC / request.path_params["name"], media_type=kind, headers=dict(HEADERS))


async def _export(request: Request) -> Response:
    """Stream a group's dead letters as a file."""
    if (refusal := _stream_refusal(request)) is not None:
        return refusal
    group = request.path_params["group"]
    parts = dead_letters.export(request.state.session.clients, group)
    try:
        with _counted(request.app, request.state.session):  # then the response counts
            first = await anext(parts, b"")
    except OrbitError as error:
        return answer(request, error_page(error))

    async def body() -> AsyncIterator[bytes]:
        yield first
        async with aclosing(parts):
            async for part in parts:
                yield part

    name = "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in group)
    headers = {**HEADERS, "content-disposition": f'attachment; filename="dead-letters-{name}.ndjson"'}
    return _CountedResponse(body(), headers=headers, media_type="application/x-ndjson")


class _CountedResponse(StreamingResponse):
    """A live tail or an export, which counts as a stream of its session until it ends."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with _counted(scope["app"], scope["state"]["session"]):
            await super().__call__(scope, receive, send)


@contextmanager
def _counted(app: Starlette, session: Session[ClusterClients]) -> Iterator[None]:
    """Count a stream of a session while it runs."""
    streams = app.state.streams
    streams.append(session)
    try:
        yield
    finally:
        streams.remove(session)


def _stream_refusal(request: Request) -> Response | None:
    """Return the answer to one stream too many; None: it may begin."""
    state = request.app.state
    what = "live tails, exports and resends of dead letters"
    if len(state.streams) >= STREAMS_MAX:
        problem = f"{STREAMS_MAX} {what} run already: close one, or wait"
    elif state.logins is not None and state.streams.count(request.state.session) >= STREAMS_OF_A_SESSION:
        problem = f"{STREAMS_OF_A_SESSION} {what} of this session run already: close one, or wait"
    else:
        return None
    return answer(request, Page("error.html", "Error", {"error": problem}, 503))


async def _tail(request: Request) -> Response:
    """Stream what comes to a topic, as server-sent events."""
    if (refusal := _stream_refusal(request)) is not None:
        return refusal
    headers = {**HEADERS, "content-type": "text/event-stream"}
    return _CountedResponse(_events(request), headers=headers)


async def _events(request: Request) -> AsyncIterator[bytes]:
    query = request.query_params
    options = {"tag": query.get("tag", ""), "sql": query.get("sql", "")}
    try:
        async for found in tail(request.state.session.clients, request.path_params["topic"], **options):
            if await request.is_disconnected():
                return
            if await session_of(request, is_use=False) is None:
                raise OrbitError("the session has ended: log in again")
            yield b"data: " + dump_json(found) + b"\n\n"
    except OrbitError as error:
        yield b"event: problem\ndata: " + dump_json(str(error)) + b"\n\n"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
