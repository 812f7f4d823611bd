"""Checks of a request before its body is read, and forms that are read within limits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from starlette.types import Message

from orbitmq.dashboard import forms
from orbitmq.dashboard.app import SEARCHES_MAX, SEARCHES_OF_A_SESSION
from orbitmq.dashboard.requests import FORM_SIZE_MAX, MESSAGE_FORM_SIZE_MAX
from orbitmq.dashboard.sessions import COOKIE, Role, Session
from orbitmq.dashboard.users import LoggedIn
from waiting import until

from .conftest import Browser, browsing

OTHER_SITES = (
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
    {"origin": "http://evil.example"},
    {"origin": "null"},
)


class NoUsers:
    """Logins without a user."""

    at_a_time = 2

    async def check(self, _name: str, _password: str) -> LoggedIn | None:
        return None

    async def look_up(self, user: LoggedIn, *, before_change: bool) -> LoggedIn:
        return user


@pytest.fixture
def guarded() -> AbstractAsyncContextManager[Browser]:
    """A dashboard with a login, without a cluster."""
    return _guarded()


@asynccontextmanager
async def _guarded() -> AsyncIterator[Browser]:
    nothing: Any = SimpleNamespace(name_servers="127.0.0.1:9")
    async with browsing(nothing, logins=NoUsers()) as browser:
        yield browser


def enter(browser: Browser, role: Role = Role.ADMIN) -> None:
    """Give the browser a session."""
    state = browser.app.state
    login = LoggedIn(role, role)
    state.sessions.add(role, Session(user=role, role=role, csrf="secret", clients=state.clients, login=login), 2**53)
    browser.client.cookies.set(COOKIE, role)


class Body:
    """A body that remembers whether it was read."""

    def __init__(self, part: bytes = b"%41" * 1000) -> None:
        self.part = part
        self.is_read = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        self.is_read = True
        yield self.part


@pytest.mark.parametrize("headers", OTHER_SITES)
async def test_a_form_of_another_site_is_refused_unread(guarded: Browser, headers: dict[str, str]) -> None:
    enter(guarded)
    for path in ("/topics", "/topics/orders/send", "/logout", "/login"):
        body = Body()
        answer = await guarded.client.post(path, content=body, headers=headers)
        assert (answer.status_code, body.is_read, "another site" in answer.text) == (403, False, True), path


@pytest.mark.parametrize(
    "headers", [{}, {"origin": "http://127.0.0.1:8080"}, {"sec-fetch-site": "same-origin", "origin": "null"}]
)
async def test_a_form_of_the_same_origin_is_taken(guarded: Browser, headers: dict[str, str]) -> None:
    enter(guarded)
    assert (await guarded.client.post("/logout", data={"csrf": "secret"}, headers=headers)).status_code == 303


async def test_a_form_without_a_session_or_the_role_is_refused_unread(guarded: Browser) -> None:
    bodies = [Body(), Body()]
    without = await guarded.client.post("/topics", content=bodies[0])
    enter(guarded, Role.READER)
    reader = await guarded.client.post("/topics", content=bodies[1])
    assert (without.status_code, reader.status_code) == (401, 403)
    assert [body.is_read for body in bodies] == [False, False]


@pytest.mark.parametrize(
    ("path", "size_max"),
    [("/topics", FORM_SIZE_MAX), ("/login", FORM_SIZE_MAX), ("/topics/a/send", MESSAGE_FORM_SIZE_MAX)],
)
async def test_a_form_that_is_too_long_is_refused_by_its_length(guarded: Browser, path: str, size_max: int) -> None:
    enter(guarded)
    body = Body()
    told = await guarded.client.post(path, content=body, headers={"content-length": str(size_max + 1)})
    untold = await guarded.client.post(path, content=Body(b"x" * (size_max + 1)))
    assert (told.status_code, untold.status_code, body.is_read) == (400, 400, False)
    assert all(f"at most {size_max} bytes" in answer.text for answer in (told, untold))


async def test_what_is_large_is_parsed_in_a_thread(guarded: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []

    def parse(body: bytes) -> dict[str, str]:
        threads.append(threading.current_thread() is threading.main_thread())
        return forms.parse_form(body)

    enter(guarded)
    monkeypatch.setattr("orbitmq.dashboard.requests.parse_form", parse)
    for size in (10, 2 * FORM_SIZE_MAX):
        await guarded.client.post("/topics/orders/send", data={"body": "x" * size})
    assert threads == [True, False]


@pytest.mark.parametrize(
    "path", ["/", "/messages?topic=a&begin=2020-01-01", "/topics/a/tail", "/dead-letters/g/export"]
)
async def test_pages_that_another_site_asks_for_are_refused(guarded: Browser, path: str) -> None:
    enter(guarded)
    answer = await guarded.client.get(path, headers={"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"})
    assert answer.status_code == 403


@pytest.mark.parametrize(
    ("path", "status"), [("/login", 200), ("/topics/a/tail", 403), ("/dead-letters/g/export", 403)]
)
async def test_a_link_on_another_site_leads_to_a_page_and_to_no_stream(
    guarded: Browser, path: str, status: int
) -> None:
    enter(guarded)
    headers = {"sec-fetch-site": "cross-site", "sec-fetch-dest": "document", "sec-fetch-user": "?1"}
    assert (await guarded.client.get(path, headers=headers)).status_code == status


async def test_a_field_that_is_too_long_is_named_with_its_limit(guarded: Browser) -> None:
    for field in ("to", "password", "name"):
        answer = await guarded.client.post("/login", data={"name": "anna", "password": "x", field: "x" * 60_000})
        assert answer.status_code == 400
        assert f"{field}: &#39;60000 characters&#39; is not allowed, expected at most" in answer.text


async def test_a_form_that_is_abandoned_leaves_no_traceback(guarded: Browser) -> None:
    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(_message: Message) -> None: ...

    headers = [(b"host", b"127.0.0.1"), (b"content-length", b"100")]
    scope = {"type": "http", "method": "POST", "path": "/login", "query_string": b"", "headers": headers}
    await guarded.app(scope, receive, send)


async def test_a_form_whose_body_comes_after_its_user_is_gone_changes_nothing(
    guarded: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The head comes while the user may; the body may come 30 s later."""
    enter(guarded)
    form = httpx.QueryParams({"csrf": "secret", "group": "billing", "confirmed": "yes"})

    async def gone(_logins: NoUsers, _user: LoggedIn, *, before_change: bool) -> None: ...

    async def late() -> AsyncIterator[bytes]:
        monkeypatch.setattr(NoUsers, "look_up", gone)
        yield str(form).encode()

    assert (await guarded.client.post("/groups", content=late())).status_code == 401
    assert (guarded.audit, guarded.app.state.sessions.all()) == ([], [])


async def test_searches_run_two_at_a_time_and_too_many_are_refused(guarded: Browser) -> None:
    enter(guarded)
    state = guarded.app.state
    (session,) = state.sessions.all()
    await state.searching.acquire()
    await state.searching.acquire()
    waiting = [asyncio.create_task(guarded.client.get("/messages")) for _ in range(SEARCHES_OF_A_SESSION)]
    await until(lambda: state.searches == [session] * SEARCHES_OF_A_SESSION)
    assert "4 searches of this session" in (await guarded.client.get("/messages")).text
    enter(guarded, Role.READER)
    state.searches += [object()] * (SEARCHES_MAX - SEARCHES_OF_A_SESSION - 1)
    waiting.append(asyncio.create_task(guarded.client.get("/messages")))
    await until(lambda: len(state.searches) == SEARCHES_MAX)
    paths = ("/messages", "/dead-letters/g", "/topics/a/messages/b")
    assert [(await guarded.client.get(path)).status_code for path in paths] == [503] * 3
    state.searching.release()
    assert {answer.status_code for answer in await asyncio.gather(*waiting)} == {200}
