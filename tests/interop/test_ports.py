"""A Java client that uses what Java's servers offer without being told to: TLS, and the VIP channel. Ours were given no files."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.drain import bodies, read_all
from interop.peers import JavaClients, message
from orbitmq.address import parse_address
from orbitmq.admin.monitoring import ask_broker_health, ask_health
from orbitmq.net.pool import ConnectionPool
from orbitmq.testing import BlockingCluster, LocalCluster


@pytest.fixture
def cluster() -> Iterator[BlockingCluster]:
    with LocalCluster.running(settings={"vip_channel_enable": True}) as cluster:
        yield cluster


@pytest.fixture
def demanding_java(jars: None, tmp_path: Path) -> Iterator[JavaClients]:
    """Java clients that encrypt everything, and send to the VIP port."""
    clients = JavaClients(tmp_path, jvm=("-Dtls.enable=true", "-Dcom.rocketmq.sendMessageWithVIPChannel=true"))
    yield clients
    clients.close()


def connections_to(port: int) -> int:
    """Return how many established connections of this machine lead to a port."""
    established = "01"
    lines = [
        line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]
    ]
    return sum(fields[2].endswith(f":{port:04X}") and fields[3] == established for fields in lines)


def tls_of(name_server: str, broker: str) -> tuple[str, str]:
    """Return what the health documents of both say about TLS; asked plainly."""

    async def ask() -> tuple[str, str]:
        pool = ConnectionPool()
        try:
            health = await ask_health(pool, name_server, timeout_ms=60_000)
            return health["tls"], (await ask_broker_health(pool, broker, timeout_ms=60_000))["tls"]
        finally:
            await pool.close()

    return asyncio.run(ask())


def test_a_java_client_speaks_tls_with_servers_that_were_given_no_files_and_sends_to_the_vip_port(
    cluster: BlockingCluster, demanding_java: JavaClients, name: str
):
    (broker,) = cluster.brokers.values()
    assert all("is made when the first client asks" in text for text in tls_of(cluster.name_servers, broker))
    producer = demanding_java.producer("vips", cluster.name_servers)
    sent = producer.send(*(message(name, b"%d" % n) for n in range(4)))

    assert {item["status"] for item in sent} == {"SEND_OK"}
    assert connections_to(parse_address(broker)[1] - 2) == 1
    assert bodies(read_all(cluster.name_servers, name, 4)) == [b"0", b"1", b"2", b"3"], "a plain client reads"
    assert all("a self-made certificate of this run" in text for text in tls_of(cluster.name_servers, broker))
    producer.stop()
