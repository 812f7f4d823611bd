"""rocketmq-rust's servers: its NameServer under our broker and clients, its broker under our NameServer and clients.

Their programs are taken from PATH: `cargo install rocketmq-namesrv rocketmq-broker` builds them in half an hour.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from interop.peers import free_ports
from orbitmq import Message, Producer, PushConsumer
from orbitmq.admin import AdminClient
from orbitmq.broker.app import Broker
from orbitmq.broker.config import BrokerConfig
from orbitmq.errors import ClientError, RouteNotFound
from orbitmq.model.topic import TopicConfig
from orbitmq.testing import LocalCluster
from waiting import until

pytestmark = pytest.mark.proof


@contextmanager
def started(program: str, home: Path, *words: str) -> Iterator[None]:
    """Run one of their programs."""
    path = shutil.which(program)
    if path is None:
        pytest.skip(f"{program} is not in PATH: cargo install rocketmq-namesrv rocketmq-broker")
    home.mkdir()
    environment = os.environ | {"ROCKETMQ_HOME": str(home), "HOME": str(home)}
    with (home / "log").open("wb") as log:
        process = subprocess.Popen([path, *words], env=environment, cwd=home, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.kill()
        process.wait()


async def test_a_broker_of_ours_and_its_clients_work_with_their_name_server(tmp_path: Path) -> None:
    port = free_ports(0)
    address = f"127.0.0.1:{port}"
    with started("rocketmq-namesrv-rust", tmp_path / "rust", "--listenPort", str(port), "--bindAddress", "127.0.0.1"):
        config = BrokerConfig(
            broker_name="broker-a",
            namesrv_addr=address,
            bind_address="127.0.0.1",
            listen_port=0,
            vip_channel_enable=False,
            store_path_root_dir=tmp_path / "store",
        )
        async with AdminClient(address) as admin, Producer("p", address) as producer:
            await until(admin.cluster_info, 0.1, errors=ClientError)
            broker = Broker(config)
            await broker.start()
            assert (await admin.cluster_info()).brokers["broker-a"].addresses == {0: broker.address}
            await admin.create_topic(TopicConfig(topic="orders", read_queue_count=4, write_queue_count=4))
            for number in range(8):
                await producer.send(Message("orders", b"%d" % number))
            assert sum(found.max_offset for found in (await admin.topic_stats("orders")).values()) == 8
            await admin.delete_topic("orders")
            with pytest.raises(RouteNotFound):
                await admin.topic_route("orders")
            await broker.stop()
            assert (await admin.cluster_info()).brokers == {}


async def test_clients_of_ours_work_with_their_broker_in_a_name_server_of_ours(tmp_path: Path) -> None:
    port = free_ports(-2, 0, 1)
    async with LocalCluster() as cluster, AdminClient(cluster.name_servers) as admin:
        settings = {
            "brokerClusterName": "RustCluster",
            "brokerName": "rust-a",
            "brokerIP1": "127.0.0.1",
            "listenPort": port,
            "namesrvAddr": cluster.name_servers,
            "storePathRootDir": tmp_path / "store",
            "mappedFileSizeCommitLog": 16 * 1024 * 1024,
        }
        path = tmp_path / "broker.conf"
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        with started("rocketmq-broker-rust", tmp_path / "rust", "-c", str(path), "--config-format", "properties"):
            await until(lambda: registered(admin), 0.1)
            config = TopicConfig(topic="orders", read_queue_count=4, write_queue_count=4)
            await admin.create_topic(config, cluster="RustCluster")
            bodies: list[bytes] = []
            eater = PushConsumer(
                "billing", cluster.name_servers, handler=lambda batch: bodies.extend(one.body for one in batch)
            )
            async with Producer("p", cluster.name_servers) as producer, eater:
                eater.subscribe("orders")
                for number in range(8):
                    await producer.send(Message("orders", b"%d" % number, keys=[f"k{number}"]))
                await producer.send(Message("orders", b"8", delay_ms=1_000))
                await until(lambda: len(bodies) >= 9, 0.1)
            assert sorted(bodies) == [b"%d" % number for number in range(9)]
            (found,) = (await admin.messages_by_key("orders", "k1")).messages
            assert found.body == b"1"
            stats = await admin.topic_stats("orders")
            assert (len(stats), sum(found.max_offset for found in stats.values())) == (4, 9)
            lag = await admin.group_lag("billing")
            assert sum(found.lag for found in lag.values()) == 0


async def registered(admin: AdminClient) -> bool:
    return "rust-a" in (await admin.cluster_info()).brokers
