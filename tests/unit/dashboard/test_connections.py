"""Limits of connections, in time and number, of a dashboard that listens; and those of its live tails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, suppress
from types import SimpleNamespace
from typing import Any

import pytest

from orbitmq.address import parse_address
from orbitmq.dashboard import connections
from orbitmq.dashboard.app import STREAMS_MAX, Dashboard, DashboardOptions
from waiting import until

from .conftest import browsing
from .test_requests import NoUsers, enter

HEAD = b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\n"


@pytest.fixture
def listening() -> Callable[[], AbstractAsyncContextManager[Dashboard]]:
    return _listening


@asynccontextmanager
async def _listening() -> AsyncIterator[Dashboard]:
    dashboard = Dashboard("127.0.0.1:9", DashboardOptions(port=0))
    await dashboard.start()
    try:
        yield dashboard
    finally:
        await dashboard.stop()


async def connect(dashboard: Dashboard) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(*parse_address(dashboard.address))


@pytest.mark.real
@pytest.mark.parametrize(
    ("limit", "sent"),
    [
        ("HEAD_S", b""),
        ("HEAD_S", HEAD),
        ("BODY_S", HEAD + b"Content-Length: 9\r\n\r\nname="),
        ("BODY_S", HEAD + b"Origin: http://a\r\nContent-Length: 9\r\n\r\n"),
    ],
)
async def test_a_request_that_does_not_end_is_ended(
    listening: Callable[[], AbstractAsyncContextManager[Dashboard]],
    monkeypatch: pytest.MonkeyPatch,
    limit: str,
    sent: bytes,
) -> None:
    monkeypatch.setattr(connections, limit, 0.05)
    async with listening() as dashboard:
        reader, writer = await connect(dashboard)
        with closing(writer):
            writer.write(sent)
            with suppress(ConnectionResetError):
                await reader.read()


@pytest.mark.real
async def test_too_many_connections_of_an_address_end_the_oldest_and_a_new_one_is_answered(
    listening: Callable[[], AbstractAsyncContextManager[Dashboard]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "CONNECTIONS_MAX", 8)
    async with listening() as dashboard:
        opened = [await connect(dashboard) for _ in range(20)]
        held = dashboard._server.server_state.connections
        await until(lambda: opened[15][0].at_eof() or opened[15][0].exception())
        reader, writer = await connect(dashboard)
        writer.write(b"GET /static/style.css HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        assert len(held) <= 4
        for _, each in (*opened, (reader, writer)):
            each.close()


@pytest.mark.parametrize(("others", "own", "said"), [(STREAMS_MAX, 0, "8 live tails"), (0, 2, "2 live tails")])
async def test_a_tail_an_export_or_a_resend_too_many_is_refused_with_a_sentence(
    others: int, own: int, said: str
) -> None:
    nothing: Any = SimpleNamespace(name_servers="127.0.0.1:9")
    async with browsing(nothing, logins=NoUsers()) as browser:
        enter(browser)
        (session,) = browser.app.state.sessions.all()
        browser.app.state.streams += [object()] * others + [session] * own
        answers = [
            await browser.client.get("/topics/orders/tail"),
            await browser.client.get("/dead-letters/billing/export"),
            await browser.client.post("/dead-letters/billing/resend", data={"csrf": "secret"}),
        ]
    assert [(answer.status_code, said in answer.text) for answer in answers] == [(503, True)] * 3


async def test_exports_that_wait_for_their_first_letter_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them read before the first one has something to send."""

    async def export(_clients: object, _group: str) -> AsyncGenerator[bytes, None]:
        await go_on.wait()
        yield b"{}\n"

    go_on = asyncio.Event()
    monkeypatch.setattr("orbitmq.dashboard.dead_letters.export", export)
    nothing: Any = SimpleNamespace(name_servers="127.0.0.1:9")
    async with browsing(nothing, logins=NoUsers()) as browser:
        enter(browser)
        asked = [asyncio.create_task(browser.client.get("/dead-letters/billing/export")) for _ in range(4)]
        await until(lambda: sum(task.done() for task in asked) == 2)
        go_on.set()
        statuses = sorted([(await task).status_code for task in asked])
    assert (statuses, browser.app.state.streams) == ([200, 200, 503, 503], [])
