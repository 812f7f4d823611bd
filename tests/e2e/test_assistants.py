"""`orbitmq mcp` as assistants run it: real processes over stdio and HTTP, driven by the protocol's own client."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from e2e.test_cli import ORBITMQ, serving
from orbitmq import Message, Producer
from orbitmq.testing import LocalCluster

SIZE_MAX = 64 * 1024
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def over_stdio(name_servers: str, *more: object) -> Client:
    arguments = [*ORBITMQ[1:], "mcp", "-n", name_servers, *map(str, more)]
    environment = {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    return Client(StdioServerParameters(command=sys.executable, args=arguments, env=environment))


async def ask(client: Client, tool: str, **arguments: Any) -> Any:
    result: Any = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content[0].text
    return json.loads(result.content[0].text)


async def refused(client: Client, tool: str, **arguments: Any) -> str:
    result: Any = await client.call_tool(tool, arguments)
    assert result.is_error, result.content[0].text
    return str(result.content[0].text)


async def test_an_assistant_reads_a_cluster_over_stdio_and_changes_nothing(tmp_path: Path) -> None:
    async with LocalCluster(data_dir=tmp_path) as cluster, over_stdio(cluster.name_servers) as client:
        async with Producer("makers", cluster.name_servers) as producer:
            await producer.send(Message("orders", b"hello"))
        (broker,) = (await ask(client, "clusters"))["brokers"]
        assert (broker["broker"], broker["role"]) == ("broker-a", "master")
        (row,) = (await ask(client, "topics", search="orders"))["topics"]
        assert row["messages"] == 1
        answer = await ask(client, "messages_by_time", topic="orders", begin=0, with_body=True)
        assert [message["content"]["body"] for message in answer["messages"]] == ["hello"]
        assert "--allow-changes" in await refused(client, "delete_topic", topic="orders", dry_run=False)
        assert (await ask(client, "topic", topic="orders"))["messages"] == 1


async def test_changes_that_are_allowed_are_made_and_are_in_the_audit_log(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    async with LocalCluster(data_dir=tmp_path / "data") as cluster:
        async with over_stdio(cluster.name_servers, "--allow-changes", "--audit-log", log) as client:
            assert (await ask(client, "create_topic", topic="orders"))["done"] is False
            assert (await ask(client, "create_topic", topic="orders", dry_run=False))["done"] is True
            sent = await ask(client, "send_message", topic="orders", body="hello", dry_run=False)
            found = await ask(client, "message", topic="orders", message_id=sent["after"][0]["message_id"])
            assert found["messages"][0]["content"]["body_size"] == 5
    records = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(record["action"], record["error"]) for record in records] == [
        ("create_topic", None),
        ("send_message", None),
    ]
    assert records[0]["after"][0]["read_queues"] == 4
    assert "hello" not in log.read_text()


async def test_an_assistant_reads_and_changes_over_http(tmp_path: Path) -> None:
    async with LocalCluster(data_dir=tmp_path) as cluster:
        arguments = ("--http", "--port", 0, "-o", "json", "--allow-changes")
        with serving("mcp", "-n", cluster.name_servers, *arguments) as server:
            async with Client(server.ready["mcp"]) as client:
                assert (await ask(client, "create_topic", topic="orders", dry_run=False))["done"] is True
                assert [row["broker"] for row in (await ask(client, "route", topic="orders"))["brokers"]] == [
                    "broker-a"
                ]
            code, errors = server.end()
    assert code == 0
    (line,) = [json.loads(line) for line in errors.splitlines() if "audit" in line]
    record = json.loads(line["event"].removeprefix("audit "))
    assert record["action"] == "create_topic"
    assert ", by mcp " in record["who"]


@contextmanager
def piped(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [*ORBITMQ, "mcp", *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_stdout_has_nothing_but_answers_none_of_them_too_large(tmp_path: Path) -> None:
    with LocalCluster.running(data_dir=tmp_path) as cluster:
        lines = [INITIALIZE, INITIALIZED, "no protocol", call(2, "clusters"), call(3, "topics", count=0)]
        with piped("-n", cluster.name_servers) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            for line in lines:
                process.stdin.write((line if isinstance(line, str) else json.dumps(line)) + "\n")
            process.stdin.flush()
            answers: dict[Any, Any] = {}
            while not {1, 2, 3, None} <= answers.keys():
                line = process.stdout.readline()
                assert len(line.encode()) <= SIZE_MAX
                document = json.loads(line)
                assert document["jsonrpc"] == "2.0"
                answers[document["id"]] = document.get("result", document.get("error"))
            rest, _ = process.communicate(timeout=60)
        assert all(json.loads(line)["jsonrpc"] == "2.0" for line in rest.splitlines())
    assert process.returncode == 0
    assert answers[None] == {"code": -32700, "message": "a line is not JSON"}
    assert answers[3]["isError"] is True
    assert answers[3]["content"][0]["text"] == "count: 0 is not allowed, expected greater than or equal to 1"
    assert answers[2]["isError"] is False


def call(number: int, tool: str, **arguments: Any) -> dict[str, Any]:
    params = {"name": tool, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.proof)])
def test_a_signal_ends_a_server_whose_client_says_nothing(number: signal.Signals) -> None:
    with piped("-n", "127.0.0.1:1") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(INITIALIZE) + "\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == 1
        process.send_signal(number)
        process.wait(timeout=60)
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()


@pytest.mark.proof
def test_a_request_without_end_ends_the_server_with_a_sentence() -> None:
    with piped("-n", "127.0.0.1:1") as process:
        _, errors = process.communicate("x" * (3 * 1024 * 1024), timeout=60)
    assert process.returncode == 1
    assert errors.splitlines()[-1] == "orbitmq: a request has more than 1048576 bytes"
