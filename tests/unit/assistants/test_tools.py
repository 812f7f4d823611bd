"""Calls: changes that are not allowed, that fail, or that cannot be recorded; errors; schemas."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from orbitmq.admin import AdminClient
from orbitmq.admin.actions import Action
from orbitmq.admin.cluster_clients import ClusterClients
from orbitmq.assistants import tools
from orbitmq.assistants.answers import Answer
from orbitmq.assistants.changes import Plan
from orbitmq.assistants.tools import TOOLS, CallResult, Toolbox, make_tool
from orbitmq.errors import ClientError

from .conftest import Records

CHANGES = {
    "create_topic",
    "change_topic",
    "delete_topic",
    "reset_group",
    "clone_group",
    "resend_dead_letters",
    "send_message",
}


async def planned(clients: ClusterClients, label: str) -> Plan:
    """Change a label."""

    async def carry_out() -> list[dict[str, Any]]:
        if label == "bad":
            raise ClientError("the broker refused")
        return [{"label": label}]

    return Plan(f"set the label to {label}", [{"label": "old"}], [{"label": label}], carry_out)


async def broken(clients: ClusterClients) -> Answer:
    """Fail."""
    raise KeyError("a mistake of ours")


@pytest.fixture(autouse=True)
def _nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    async def missing(_admin: AdminClient) -> dict[str, str]:
        return {}

    monkeypatch.setattr(AdminClient, "missing_masters", missing)


@pytest.fixture
def own_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    table = {"planned": make_tool(planned, Action(role="admin", rule=None)), "broken": make_tool(broken)}
    monkeypatch.setattr(tools, "TOOLS", table)


async def call(audit: Records | None, name: str, **arguments: Any) -> CallResult:
    clients = ClusterClients("127.0.0.1:1")
    try:
        return await Toolbox(clients, audit).call(name, arguments, "ann")
    finally:
        await clients.close()


def test_the_tools_that_change_something_are_these() -> None:
    assert {name for name, tool in TOOLS.items() if tool.changes} == CHANGES


def test_every_tool_has_a_description_and_a_closed_schema() -> None:
    for tool in TOOLS.values():
        assert tool.description
        assert tool.schema["additionalProperties"] is False
        assert tool.changes is ("dry_run" in tool.schema["properties"])
    assert TOOLS["delete_topic"].schema["properties"]["dry_run"]["default"] is True


@pytest.mark.parametrize("name", sorted(CHANGES))
async def test_a_change_that_is_not_allowed_is_refused_and_the_error_says_how_it_is_allowed(name: str) -> None:
    result = await call(None, name, dry_run=True)
    assert result.is_error
    assert "--allow-changes" in result.text


async def test_a_tool_that_there_is_not_comes_with_those_that_there_are() -> None:
    result = await call(None, "drop_all")
    assert result.is_error
    assert result.text.startswith("tool: 'drop_all' is not allowed, expected one of findings, ")


async def test_a_change_that_fails_is_recorded_with_its_error(own_tools: None) -> None:
    audit = Records()
    result = await call(audit, "planned", label="bad", dry_run=False)
    assert (result.is_error, json.loads(result.text)["content"]["error"]) == (True, "the broker refused")
    (record,) = audit.kept
    assert (record.error, record.after) == ("ClientError: the broker refused", None)
    assert (record.before, record.target) == ([{"label": "old"}], {"label": "bad"})


async def test_a_change_that_is_cancelled_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    has_begun = asyncio.Event()

    async def endless(clients: ClusterClients) -> Plan:
        """Change without end."""

        async def carry_out() -> list[dict[str, Any]]:
            has_begun.set()
            await asyncio.Event().wait()
            return []

        return Plan("change without end", [], [], carry_out)

    monkeypatch.setattr(tools, "TOOLS", {"endless": make_tool(endless, Action(role="admin", rule=None))})
    audit = Records()
    calling = asyncio.ensure_future(call(audit, "endless", dry_run=False))
    await has_begun.wait()
    calling.cancel()
    await asyncio.gather(calling, return_exceptions=True)
    assert [(record.action, record.error) for record in audit.kept] == [("endless", "CancelledError: ")]


async def test_a_change_that_cannot_be_recorded_is_told_as_made(own_tools: None) -> None:
    audit = Records()
    audit.error = OSError(28, "No space left on device")
    result = await call(audit, "planned", label="new", dry_run=False)
    assert not result.is_error
    assert '"done":true' in result.text
    assert "the change is not in the audit log" in result.text


async def test_a_mistake_of_ours_tells_the_assistant_nothing_but_the_log_all(
    own_tools: None, caplog: pytest.LogCaptureFixture
) -> None:
    result = await call(None, "broken")
    assert result == CallResult("broken has failed; the server's log says why", True)
    assert "a mistake of ours" in caplog.text


@pytest.mark.real
async def test_a_cluster_that_does_not_answer_is_an_error() -> None:
    result = await call(None, "clusters")
    assert result.is_error
    assert "127.0.0.1:1" in result.text
