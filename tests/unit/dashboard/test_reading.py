"""Live tails and summaries, read from a running cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from orbitmq import Message, Producer
from orbitmq.admin.cluster_clients import ClusterClients
from orbitmq.dashboard import reading
from orbitmq.dashboard.reading import latest, tail
from orbitmq.testing import LocalCluster

pytestmark = pytest.mark.real


@asynccontextmanager
async def opened(cluster: LocalCluster) -> AsyncIterator[ClusterClients]:
    clients = ClusterClients(cluster.name_servers)
    try:
        yield clients
    finally:
        await clients.close()


async def test_a_tail_begins_now_and_says_how_many_it_leaves_out(tmp_path: Path) -> None:
    async with (
        LocalCluster(data_dir=tmp_path) as cluster,
        Producer("makers", cluster.name_servers) as producer,
        opened(cluster) as clients,
    ):
        await producer.send(Message("orders", b"before"))
        async with aclosing(tail(clients, "orders", tag="a")) as events:
            assert (await anext(events))["messages"] == []
            for number in range(100):
                await producer.send(Message("orders", b"%d" % number, tag="a"))
                await producer.send(Message("orders", b"other", tag="b"))
            found = []
            while sum(len(event["messages"]) + event["left_out"] for event in found) < 100:
                found.append(await anext(events))
    bodies = [message["body"] for event in found for message in event["messages"]]
    assert "before" not in bodies
    assert "other" not in bodies
    assert all(len(event["messages"]) <= reading.TAIL_COUNT_MAX for event in found)
    assert sum(event["left_out"] for event in found) == 100 - len(bodies)


async def test_a_tail_that_is_behind_goes_on_with_the_newest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "TAIL_READ_MAX", 10)
    async with (
        LocalCluster(data_dir=tmp_path) as cluster,
        Producer("makers", cluster.name_servers) as producer,
        opened(cluster) as clients,
    ):
        await producer.send(Message("orders", b"before"))
        async with aclosing(tail(clients, "orders")) as events:
            await anext(events)
            for number in range(200):
                await producer.send(Message("orders", b"%d" % number))
            event = await anext(events)
            while not event["is_behind"]:
                event = await anext(events)
            await producer.send(Message("orders", b"last"))
            while [message["body"] for message in event["messages"]] != ["last"]:
                event = await anext(events)


async def test_the_latest_messages_come_newest_first_and_are_not_many(tmp_path: Path) -> None:
    async with (
        LocalCluster(data_dir=tmp_path) as cluster,
        Producer("makers", cluster.name_servers) as producer,
        opened(cluster) as clients,
    ):
        for number in range(30):
            await producer.send(Message("orders", b"%d" % number + b"x" * 1_000))
        found, _ = await latest(clients, "orders", 5)
        times = [message["stored_at_ms"] for message in found]
        assert len(found) == 5
        assert times == sorted(times, reverse=True)
        assert all(len(message["body"]) == reading.BODY_SIZE_SHOWN + 1 for message in found)
