"""One of two brokers is frozen: it takes connections and answers nothing. Every question to both gives what the other one has."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx
import pytest

from children import freeze
from orbitmq import Message, Producer, PullConsumer, PushConsumer
from orbitmq.admin import AdminClient
from orbitmq.admin.cluster_clients import ClusterClients
from orbitmq.assistants.tools import Toolbox
from orbitmq.audit import AuditRecord
from orbitmq.cli.main import main
from orbitmq.client.session.session import ClientSession
from orbitmq.dashboard.app import DashboardOptions, make_app
from orbitmq.model.route import MessageQueue
from orbitmq.model.topic import TopicConfig
from orbitmq.testing import LocalCluster
from waiting import until

TIMEOUT_MS = 400
COMMANDS = {
    ("group", "list"): "readers",
    ("group", "show", "readers"): "CLIENT_ID",
    ("group", "lag"): "readers",
    ("group", "lag", "--topic", "orders"): "readers",
    ("group", "lag", "readers"): "broker-a",
    ("group", "lag", "readers", "--watch", "--count", "1"): "broker-a",
    ("group", "lag", "readers", "--topic", "orders", "--watch", "--count", "1"): "broker-a",
    ("topic", "show", "orders"): "broker-a",
    ("topic", "list", "--verbose"): "orders",
    ("topic", "config", "show", "orders"): "broker-a",
    ("stats",): "TOPIC",
    ("mqadmin", "consumerProgress"): "readers",
    ("mqadmin", "consumerProgress", "-g", "readers"): "broker-a",
    ("mqadmin", "printMsg", "-t", "orders"): "MSGID",
    ("mqadmin", "consumeMessage", "-t", "orders"): "MSGID",
    ("mqadmin", "topicStatus", "-t", "orders"): "broker-a",
    ("mqadmin", "topicList", "-c"): "readers",
    ("mqadmin", "statsAll"): "readers",
}
"""Commands, and what each prints of broker-a."""
TOOLS: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("topics", {}, "topics"),
    ("topic", {"topic": "orders"}, "queues"),
    ("groups", {}, "groups"),
    ("group", {"group": "readers"}, "queues"),
    ("messages_by_key", {"topic": "orders", "key": "k"}, "messages"),
    ("messages_by_time", {"topic": "orders", "begin": 0}, "messages"),
)
PAGES = (
    ("/topics", {}, "topics"),
    ("/topics/orders", {}, "queues"),
    ("/topics/orders", {}, "groups"),
    ("/topics/orders", {}, "messages"),
    ("/topics/orders", {}, "settings"),
    ("/messages", {"topic": "orders", "begin": "2020-01-01T00:00"}, "messages"),
    ("/groups", {}, "groups"),
    ("/groups/readers", {}, "queues"),
    ("/clients", {}, "producers"),
)


class Unkept:
    """An audit log that keeps nothing."""

    def write(self, record: AuditRecord) -> None:
        pass


@asynccontextmanager
async def half_frozen() -> AsyncIterator[tuple[LocalCluster, str]]:
    """Run two brokers with messages of a topic, and a group that has read one of each queue; freeze broker-b."""
    async with LocalCluster(brokers=2, processes=True) as cluster:
        async with AdminClient(cluster.name_servers) as admin:
            for topic in ("orders", "%RETRY%readers"):  # mqadmin finds groups by the topics of their retries
                await admin.create_topic(TopicConfig(topic=topic, read_queue_count=2, write_queue_count=2))
        async with Producer("makers", cluster.name_servers) as producer:
            sent = [await producer.send(Message("orders", b"x", keys=["k"])) for _ in range(8)]
        async with PullConsumer("readers", cluster.name_servers) as consumer:
            await consumer.commit(dict.fromkeys(await consumer.queues("orders"), 1))
        with frozen(cluster, "broker-b"):
            yield cluster, next(result.message_id for result in sent if result.queue.broker_name == "broker-a")


@contextmanager
def frozen(cluster: LocalCluster, broker: str) -> Iterator[None]:
    """Stop a broker's process (SIGSTOP), and let it go on at the end."""
    pid = cluster._broker(broker)._service._process.pid
    freeze(pid)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.fixture
def _short_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orbitmq.cli.mqadmin.app.TIMEOUT_MS", TIMEOUT_MS)
    for call in (ClientSession.call, ClientSession.call_queue):
        monkeypatch.setitem(call.__kwdefaults__ or {}, "timeout_ms", TIMEOUT_MS)


@pytest.mark.usefixtures("_short_timeouts")
async def test_commands_show_what_the_other_broker_has(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    async with half_frozen() as (cluster, _):
        for words, shown in COMMANDS.items():
            capfdbinary.readouterr()
            options = ("-n", cluster.name_servers, *(("--timeout-ms", str(TIMEOUT_MS)) * (words[0] != "mqadmin")))
            code = await asyncio.to_thread(main, [*words, *options])
            out, err = (text.decode() for text in capfdbinary.readouterr())
            assert (int(code), shown in out, "without broker-b" in err) == (1, True, True), (words, code, out, err)


@pytest.mark.usefixtures("_short_timeouts")
async def test_tools_and_pages_show_what_the_other_broker_has() -> None:
    async with half_frozen() as (cluster, message_id):
        clients = ClusterClients(cluster.name_servers, timeout_ms=TIMEOUT_MS)
        try:
            await check_tools(Toolbox(clients, Unkept()), message_id)
            await check_pages(httpx.ASGITransport(make_app(clients, DashboardOptions(audit=Unkept()))))
        finally:
            await clients.close()


async def check_tools(tools: Toolbox, message_id: str) -> None:
    for tool, arguments, table in TOOLS:
        result = await tools.call(tool, arguments, "ann, by a test")
        document = json.loads(result.text) if not result.is_error else {}
        assert document.get(table), (tool, result.text)
        assert list(document["silent"]) == ["broker-b"], (tool, result.text)
    found = await tools.call("message", {"topic": "orders", "message_id": message_id}, "ann, by a test")
    assert not found.is_error, found.text


async def check_pages(transport: httpx.ASGITransport) -> None:
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as browser:
        for path, query, table in PAGES:
            answer = await browser.get(path, params=query, headers={"accept": "application/json"})
            assert answer.status_code == 200, (path, answer.text)
            assert answer.json()[table] or table == "producers", (path, table, answer.text)
            assert "without broker-b" in answer.text, (path, answer.text)


@pytest.mark.proof
async def test_commands_wait_four_seconds_at_most() -> None:
    async with half_frozen() as (cluster, _):
        took_s = {}
        for words in COMMANDS:
            begun = time.monotonic()
            code = await asyncio.to_thread(main, [*words, "-n", cluster.name_servers])
            assert code == 1, words
            took_s[" ".join(words)] = time.monotonic() - begun
    check_times(took_s)


@pytest.mark.proof
async def test_pages_and_tools_wait_four_seconds_at_most() -> None:
    async with half_frozen() as (cluster, message_id):
        clients = ClusterClients(cluster.name_servers)
        transport = httpx.ASGITransport(make_app(clients, DashboardOptions(audit=Unkept())))
        took_s = {}
        message = {"topic": "orders", "message_id": message_id}
        for tool, arguments, _table in (*TOOLS, ("message", message, ""), ("journey", {"message_id": message_id}, "")):
            begun = time.monotonic()
            await Toolbox(clients).call(tool, arguments, "ann, by a test")
            took_s[tool] = time.monotonic() - begun
        pages = (
            *PAGES,
            ("/messages", {"topic": "orders", "q": "k"}, ""),
            (f"/topics/orders/messages/{message_id}", {}, ""),
        )
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080", timeout=30) as browser:
            for path, query, _table in pages:
                begun = time.monotonic()
                await browser.get(path, params=query)
                took_s[path] = time.monotonic() - begun
        await clients.close()
    check_times(took_s)


def check_times(took_s: dict[str, float]) -> None:
    print("\n".join(f"{seconds:.2f} s {what}" for what, seconds in took_s.items()))
    assert {what: seconds for what, seconds in took_s.items() if seconds > 4} == {}


@pytest.mark.proof
async def test_a_producer_sends_everything_while_one_of_two_brokers_is_frozen() -> None:
    async with half_frozen() as (cluster, _), Producer("makers", cluster.name_servers) as producer:
        for number in range(1, 4):
            begun = time.monotonic()
            sends = (producer.send(Message("orders", b"x")) for _ in range(100))
            results = await asyncio.gather(*sends, return_exceptions=True)
            failed = [error for error in results if isinstance(error, BaseException)]
            print(f"round {number}: {100 - len(failed)} of 100 in {time.monotonic() - begun:.2f} s")
            assert not failed, failed[0]


@pytest.mark.proof
async def test_a_member_that_joins_gets_the_queues_of_the_broker_that_answers(caplog: pytest.LogCaptureFixture) -> None:
    topics, got = [f"topic-{number}" for number in range(50)], set[MessageQueue]()

    def handle(batch: Any) -> None:
        got.update(MessageQueue(one.topic, one.broker_name, one.queue_id) for one in batch)

    def member() -> PushConsumer:
        consumer = PushConsumer("members", cluster.name_servers, handler=handle)
        for topic in topics:
            consumer.subscribe(topic)
        return consumer

    async with LocalCluster(brokers=2, processes=True) as cluster:
        async with AdminClient(cluster.name_servers) as admin:
            for topic in topics:
                await admin.create_topic(TopicConfig(topic=topic, read_queue_count=4, write_queue_count=4))
        async with member() as first, Producer("makers", cluster.name_servers) as producer:
            queues = [queue for topic in topics for queue in await producer.queues(topic)]
            await asyncio.gather(*(producer.send(Message(queue.topic, b"x"), queue=queue) for queue in queues))
            await until(lambda: len(got) == len(queues) == 400)
            wanted = {queue for queue in queues if queue.broker_name == "broker-b"}
            second = member()
            with frozen(cluster, "broker-a"), caplog.at_level(logging.WARNING, "orbitmq"):
                caplog.clear()
                begun = time.monotonic()
                await second.open()
                await until(lambda: second.assignment and wanted <= first.assignment | second.assignment)
                took_s = time.monotonic() - begun
                await asyncio.sleep(4 - took_s)  # warnings of the whole time count
                warnings = [record.getMessage() for record in caplog.records]
            await second.close()
    print(f"assigned after {took_s:.2f} s; {warnings}")
    assert took_s < 4
    assert len(warnings) <= 2  # one of each member
    assert len(set(warnings)) <= 1
