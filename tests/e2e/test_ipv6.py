"""A NameServer and a broker that have IPv6 addresses only: every kind of message comes there, and back."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager
from urllib.request import urlopen

import pytest

from e2e.shop import serving_dashboard
from orbitmq import Message
from orbitmq.admin.brokers import find_brokers
from orbitmq.admin.client import AdminClient
from orbitmq.broker.config import BrokerConfig
from orbitmq.cli.servers.group import Group
from orbitmq.client.producer import Producer
from orbitmq.client.push_consumer import PushConsumer
from orbitmq.client.transaction_producer import TransactionProducer
from orbitmq.client.transactions.decision import Decision
from orbitmq.dashboard.users import LocalLogins
from orbitmq.nameserver.config import NameServerConfig
from orbitmq.testing.processes import ServerProcess
from waiting import PAUSE_S, until


def has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


@asynccontextmanager
async def servers(folder):
    """Give the address of a NameServer that knows one broker."""
    name_server = ServerProcess("nameserver", {"bindAddress": "::1", "listenPort": "0"}, folder / "nameserver")
    await name_server.start()
    addresses = {"bindAddress": "::1", "brokerIP1": "::1", "listenPort": "0", "namesrvAddr": name_server.address}
    settings = {"brokerName": "six", "storePathRootDir": str(folder / "store")}
    broker = ServerProcess("broker", addresses | settings, folder / "broker")
    try:
        await broker.start()
        yield name_server.address
    finally:
        await broker.kill()
        await name_server.kill()


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6 loopback")
async def test_messages_go_to_a_broker_with_an_ipv6_address_and_back(tmp_path):
    async with servers(tmp_path) as name_servers:
        await there_and_back(name_servers)


async def there_and_back(name_servers):
    bodies = {b"one", b"two", b"three", b"x" * 10_000, b"level", b"time", b"decided"}
    async with Producer("senders", name_servers) as producer:
        sent = await producer.send(Message("sixes", b"one", keys=["k"]))
        await producer.send_batch([Message("sixes", b"two"), Message("sixes", b"three")])
        await producer.send(Message("sixes", b"x" * 10_000))
        await producer.send(Message("sixes", b"level", delay_level=1))
        await producer.send(Message("sixes", b"time", delay_ms=1_000))
    async with TransactionProducer("deciders", name_servers, check=lambda _: Decision.COMMIT) as producer:
        async with producer.transaction(Message("sixes", b"decided")):
            pass
    async with AdminClient(name_servers) as admin:
        (found,) = (await admin.messages_by_key("sixes", "k")).messages
        assert (await admin.message_by_id("sixes", sent.offset_message_id)).body == found.body == b"one"

    seen = []
    async with PushConsumer("readers", name_servers) as consumer:
        consumer.subscribe("sixes")
        async for batch in consumer:
            seen += batch
            batch.commit()
            if len(seen) >= len(bodies):
                break

    assert {message.body for message in seen} == bodies
    assert {message.store_host.ip for message in seen} == {"::1"}
    assert len(sent.offset_message_id) == 56


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6 loopback")
async def test_a_dashboard_on_the_ipv6_wildcard_answers_both_families():
    async with serving_dashboard("[::1]:1", host="::", logins=LocalLogins({})) as dashboard:
        port = dashboard.address.rpartition(":")[2]
        for host in ("127.0.0.1", "[::1]"):
            assert await asyncio.to_thread(status_of, f"http://{host}:{port}/static/style.css") == 200


def status_of(url):
    with urlopen(url, timeout=10) as answer:
        return answer.status


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6 loopback")
async def test_controllers_elect_and_a_slave_follows_over_ipv6(tmp_path):
    broker = BrokerConfig(broker_name="six", bind_address="::1", listen_port=0, store_path_root_dir=tmp_path)
    group = Group(NameServerConfig(bind_address="::1", listen_port=0), broker, 2)
    await group.start()
    name_servers = group.name_server_address
    try:
        async with AdminClient(name_servers) as admin, Producer("senders", name_servers) as producer:
            await producer.send(Message("sixes", b"one"))

            async def is_replicated():
                return any(row["in_sync"] and row["behind"] == 0 for row in (await find_brokers(admin)).rows)

            await until(is_replicated, PAUSE_S)
    finally:
        await group.stop()
