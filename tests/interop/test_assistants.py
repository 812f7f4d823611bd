"""Tools for assistants over Java's NameServer and broker: reading, a topic that is created, a group that is reset."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from mcp import Client

from e2e.test_assistants import ask, over_stdio
from interop.conftest import JavaCluster
from interop.peers import wait_until_dispatched
from orbitmq import Message, Producer, PullConsumer
from orbitmq.net.loop import run

TIMEOUT_MS = 30_000


def test_an_assistant_reads_and_changes_a_java_cluster(java_cluster: JavaCluster, name: str, tmp_path: Path) -> None:
    servers = java_cluster.name_server.address
    audit = tmp_path / "audit.log"

    async def work() -> None:
        async with over_stdio(servers, "--timeout-ms", TIMEOUT_MS, "--allow-changes", "--audit-log", audit) as client:
            await create(client)
            await read(client, await send())
            await reset(client)

    async def create(client: Client) -> None:
        broker = java_cluster.broker.name
        arguments = {"topic": name, "read_queues": 2, "write_queues": 2, "broker": broker}
        would = await ask(client, "create_topic", **arguments)
        did = await ask(client, "create_topic", dry_run=False, **arguments)
        assert [(row["broker"], row["read_queues"]) for row in did["after"]] == [(broker, 2)]
        assert [(row["broker"], row["read_queues"]) for row in would["after"]] == [(broker, 2)]
        while name not in [row["topic"] for row in (await ask(client, "topics", search=name))["topics"]]:
            pass  # Java's broker registers a new topic a moment later

    async def send() -> str:
        async with Producer(f"{name}-makers", servers, send_timeout_ms=TIMEOUT_MS) as producer:
            sent = await producer.send(Message(name, b'{"n": 1}', keys=["k1"]))
        wait_until_dispatched(java_cluster.broker.address)
        return sent.message_id

    async def read(client: Client, sent: str) -> None:
        (broker,) = (await ask(client, "clusters"))["brokers"]
        while broker["problem"]:  # Java's broker fails at this question in its first seconds
            (broker,) = (await ask(client, "clusters"))["brokers"]
        assert (broker["broker"], broker["role"]) == (java_cluster.broker.name, "master")
        topic = await ask(client, "topic", topic=name)
        assert (topic["messages"], len(topic["queues"])) == (1, 2)
        assert (await ask(client, "route", topic=name))["queues"][0]["read_queue_count"] == 2
        found = await ask(client, "messages_by_time", topic=name, begin=0, with_body=True)
        assert [row["content"]["body"] for row in found["messages"]] == ['{"n": 1}']
        stored_at = found["messages"][0]["stored_at"]
        found = await ask(client, "messages_by_time", topic=name, begin=stored_at, end=stored_at)
        assert [row["content"]["message_id"] for row in found["messages"]] == [sent]
        assert (found["total"], found["cut"]) == ({"messages": 1}, False)
        found = await ask(client, "messages_by_key", topic=name, key="k1")
        assert [row["content"]["message_id"] for row in found["messages"]] == [sent]
        (row,) = (await ask(client, "message", topic=name, message_id=sent))["messages"]
        assert row["content"]["keys"] == "k1"
        assert (await ask(client, "dead_letters", group=f"{name}-group"))["total"] == {"dead_letters": 0}

    async def reset(client: Client) -> None:
        group = f"{name}-group"
        async with PullConsumer(group, servers) as consumer:
            consumer.assign(await consumer.queues(name))
            while not await consumer.poll():
                pass
            await consumer.commit()
        rows = (await ask(client, "groups", search=group))["groups"]
        assert [(row["group"], row["lag"]) for row in rows] == [(group, 0)]
        arguments = {"group": group, "topic": name, "to": "earliest"}
        would = await ask(client, "reset_group", **arguments)
        assert (await ask(client, "group", group=group))["lag"] == 0
        did = await ask(client, "reset_group", dry_run=False, **arguments)
        assert did["after"] == would["after"]
        while (await ask(client, "group", group=group))["lag"] != 1:
            await asyncio.sleep(0.05)
        records = [json.loads(line) for line in audit.read_text().splitlines()]
        assert [record["action"] for record in records] == ["create_topic", "reset_group"]

    run(work())
