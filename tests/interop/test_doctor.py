"""The doctor over Java's NameServer and broker: everything is asked and understood, and what is wrong is found."""

from __future__ import annotations

import asyncio

from interop.conftest import JavaCluster
from interop.peers import wait_until_dispatched
from orbitmq import Message, Producer, PushConsumer
from orbitmq.doctor import Issue, Snapshot, examine, take_snapshot
from orbitmq.net.loop import run
from orbitmq.net.pool import ConnectionPool

TIMEOUT_MS = 30_000


def test_a_java_cluster_is_understood_and_its_issues_found(java_cluster: JavaCluster, name: str) -> None:
    servers, group = java_cluster.name_server.address, f"{name}-group"

    async def look() -> tuple[Snapshot, list[Issue]]:
        pool = ConnectionPool(name="doctor")
        try:
            snapshot = await take_snapshot([servers], pool, timeout_ms=TIMEOUT_MS)
        finally:
            await pool.close()
        return snapshot, examine(snapshot)

    async def found(check: str, subject: str) -> tuple[Snapshot, Issue]:
        while True:
            snapshot, issues = await look()
            for issue in issues:
                if (issue.check, issue.subject) == (check, subject):
                    return snapshot, issue

    async def handle(_message: object) -> None:
        return None

    async def work() -> None:
        async with Producer(f"{name}-makers", servers, send_timeout_ms=TIMEOUT_MS) as producer:
            await producer.send(Message(name, b"one"))
            _, issue = await found("unread-topic", f"topic {name}")
            assert issue.text.startswith("1 messages, and no group")
            # Both are read from the start of the queue, and subscribe to different tags.
            consumers = [PushConsumer(group, servers, message_handler=handle) for _ in range(2)]
            for consumer, tag in zip(consumers, ("A", "B"), strict=True):
                consumer.subscribe(name, tag=tag)
            async with consumers[0], consumers[1]:
                snapshot, issue = await found("subscriptions-differ", f"group {group}")
                assert f"{name} A" in issue.text
                assert f"{name} B" in issue.text
                assert len(snapshot.groups[group].clients) == 2
            await asyncio.gather(*(producer.send(Message(name, b"late", tag="A")) for _ in range(20)))
            wait_until_dispatched(java_cluster.broker.address)
        snapshot, issue = await found("group-gone", f"group {group}")
        assert issue.text.startswith("20 messages wait for it")
        assert snapshot.groups[group].delays
        (broker,) = snapshot.brokers
        assert broker.refusals == {}
        assert broker.settings["fileReservedTime"] == "72"
        assert broker.topics[name].perm == 6
        assert broker.runtime_number("commitLogDiskRatio") is not None
        _, issues = await look()
        assert [issue for issue in issues if issue.check in ("clock-difference", "route-drift", "not-told")] == []

    run(work())
