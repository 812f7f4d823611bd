"""The protocol's servers: what a client is told of tools, addresses that are refused, headers of other sites."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from mcp import Client

from orbitmq.admin.cluster_clients import ClusterClients
from orbitmq.assistants import server as server_module
from orbitmq.assistants.server import INSTRUCTIONS, PATH, REQUEST_SIZE_MAX, HttpServer, make_server
from orbitmq.assistants.tools import TOOLS
from orbitmq.errors import ConfigError
from waiting import until

from .conftest import Assistant

pytestmark = pytest.mark.real

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}
PING = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


@asynccontextmanager
async def served() -> AsyncIterator[HttpServer]:
    server = HttpServer(ClusterClients("127.0.0.1:1"))
    try:
        await server.start()
        yield server
    finally:
        await server.stop()


async def post(server: HttpServer, **headers: str) -> httpx.Response:
    async with httpx.AsyncClient() as client:
        return await client.post(f"http://{server.address}{PATH}", json=INITIALIZE, headers=HEADERS | headers)


async def test_a_client_is_told_of_every_tool_and_which_ones_only_read(assistant: Assistant) -> None:
    async with Client(make_server(assistant.clients, None)) as client:
        listed = (await client.list_tools()).tools
        assert client.instructions == INSTRUCTIONS
    assert {tool.name: tool.annotations.read_only_hint for tool in listed} == {
        name: not tool.changes for name, tool in TOOLS.items()
    }
    assert all(tool.input_schema["type"] == "object" for tool in listed)


async def test_the_audit_log_names_the_user_and_the_client(assistant: Assistant) -> None:
    async with Client(make_server(assistant.clients, assistant.audit)) as client:
        result: Any = await client.call_tool("create_topic", {"topic": "orders", "dry_run": False})
        assert not result.is_error, result.content[0].text
    assert ", by mcp " in assistant.audit.kept[0].who


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.com"])
async def test_an_address_that_other_machines_reach_is_refused(host: str) -> None:
    clients = ClusterClients("127.0.0.1:1")
    with pytest.raises(ConfigError, match=r"host: .* there is no login"):
        HttpServer(clients, host=host)
    await clients.close()


async def test_a_request_for_another_host_is_refused() -> None:
    async with served() as server:
        assert (await post(server)).status_code == 200
        assert (await post(server, host="rebound.example:80")).status_code == 421


async def test_a_request_from_a_page_of_another_site_is_refused() -> None:
    async with served() as server:
        assert (await post(server, origin="http://localhost:3000")).status_code == 200
        assert (await post(server, origin="http://example.com")).status_code == 403


async def test_a_request_that_is_too_large_is_refused() -> None:
    async with served() as server, httpx.AsyncClient() as client:
        body = b" " * (REQUEST_SIZE_MAX + 1)
        answer = await client.post(f"http://{server.address}{PATH}", content=body, headers=HEADERS)
    assert answer.status_code == 413


async def test_a_session_without_a_request_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "SESSION_IDLE_S", 0.01)
    async with served() as server, httpx.AsyncClient() as client:
        headers = {**HEADERS, "mcp-session-id": (await post(server)).headers["mcp-session-id"]}

        async def has_ended() -> bool:
            answer = await client.post(f"http://{server.address}{PATH}", json=PING, headers=headers)
            return answer.status_code == 404

        await until(has_ended, 0.05)  # each request begins the time again


async def test_a_server_stops_while_a_client_listens() -> None:
    async with served() as server, httpx.AsyncClient() as client:
        session = (await post(server)).headers["mcp-session-id"]
        listening = {**HEADERS, "mcp-session-id": session, "mcp-protocol-version": "2025-06-18"}
        async with client.stream("GET", f"http://{server.address}{PATH}", headers=listening) as stream:
            assert stream.status_code == 200
            await server.stop()
