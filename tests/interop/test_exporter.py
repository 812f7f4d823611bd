"""The exporter over Java's NameServer and broker: rocketmq-exporter's names, with the values that Java's broker tells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interop.conftest import JavaCluster
from orbitmq import Message, Producer, PullConsumer
from orbitmq.admin import AdminClient
from orbitmq.exporter.collecting import Collector
from orbitmq.exporter.families import families
from orbitmq.exporter.runtime_values import NAMES
from orbitmq.model.topic import TopicConfig
from orbitmq.net.loop import run
from orbitmq.wire.bodies.groups import GroupConfig

TIMEOUT_MS = 30_000


def test_a_java_cluster_is_shown_under_rocketmq_exporters_names(java_cluster: JavaCluster, name: str) -> None:
    servers, broker, group = java_cluster.name_server.address, java_cluster.broker.name, f"{name}-group"

    async def work() -> Mapping[str, dict[tuple[str, ...], float]]:
        async with AdminClient(servers, timeout_ms=TIMEOUT_MS) as admin:
            await admin.create_topic(TopicConfig(topic=name, read_queue_count=1, write_queue_count=1))
            await admin.create_group(GroupConfig(group=group))
            async with Producer(f"{name}-makers", servers, send_timeout_ms=TIMEOUT_MS) as producer:
                sent = [await producer.send(Message(name, b"x" * 10)) for _ in range(3)]
                async with PullConsumer(group, servers) as consumer:
                    await consumer.commit({sent[0].queue: sent[0].queue_offset + 1})
                    return await collect(admin)

    async def collect(admin: AdminClient) -> Mapping[str, dict[tuple[str, ...], float]]:
        while True:  # Java's broker fails at questions in its first seconds, and stores a commit a moment later
            collector = Collector(admin)
            found = await collector.collect()
            lags: Any = {key.topic: values.lag for key, values in found.readers.items() if key.group == group}
            if not collector.errors and lags.get(name) == 2:
                return {family.name: dict(family.series) for family in families(found)}

    shown = run(work())
    ((cluster, *_),) = shown["broker_up"]
    assert shown["producer_offset"][cluster, broker, name] == 3
    assert shown["consumer_offset"][cluster, broker, name, group] == 1
    assert shown["group_diff"][group, name, "0", "1"] == 2
    assert shown["consumer_lag_messages"][cluster, "broker", broker, group, name, "false", "false"] == 2
    assert 0 < shown["group_get_latency_by_storetime"][cluster, broker, name, group] < 600_000
    assert shown["producer_count"][cluster, broker, f"{name}-makers"] == 1
    # A broker tells rates and times of sends when it has counted them for a while, latencies from a newer release on, members if it is ours.
    expected = {
        label for label in NAMES if "tps" not in label and not label.startswith(("pmdt_", "put_latency", "members_"))
    }
    assert {label for label in NAMES if shown[f"brokeruntime_{label}"]} >= expected
    assert shown["storage_size_bytes"][cluster, "broker", broker, "local", "disk"] > 0
