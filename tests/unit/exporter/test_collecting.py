"""Collections: of a running cluster, and of brokers that refuse or do not answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from orbitmq import Message, Producer, PullConsumer
from orbitmq.admin import AdminClient
from orbitmq.errors import ConnectionFailed, OrbitError, RemoteRefused, RequestTimeout
from orbitmq.exporter.collecting import TIMEOUTS_MAX, Collector
from orbitmq.exporter.collection import TopicKey
from orbitmq.model.message import StoredMessage
from orbitmq.model.route import BrokerData, ClusterInfo, MessageQueue
from orbitmq.model.topic import TopicConfig
from orbitmq.testing import LocalCluster
from orbitmq.wire.bodies.groups import GroupConfig
from orbitmq.wire.bodies.topics import QueueProgress, QueueStats

TOPICS = [f"topic-{number}" for number in range(50)]


class Broker:
    """Has many topics; `fail` may raise for a question."""

    def __init__(self, fail: Callable[[str], None]) -> None:
        self.asked: Counter[str] = Counter()
        self._fail = fail

    def __getattr__(self, name: str) -> Any:
        async def answer(*_arguments: object) -> Any:
            self.asked[name] += 1
            self._fail(name)
            answers = {"topics": TOPICS, "groups": ["billing"], "stats": None, "consumers": None}
            return answers.get(name, {})

        return answer


def admin_of(**brokers: Broker) -> Any:
    async def cluster_info() -> ClusterInfo:
        data = {name: BrokerData(cluster="c", broker_name=name, addresses={0: name}) for name in brokers}
        return ClusterInfo(brokers=data, clusters={"c": tuple(brokers)})

    async def broker(address: str) -> Broker:
        return brokers[address]

    return SimpleNamespace(cluster_info=cluster_info, broker=broker)


def nothing(_name: str) -> None:
    return None


def failing(error: OrbitError, *names: str) -> Callable[[str], None]:
    def fail(name: str) -> None:
        if not names or name in names:
            raise error

    return fail


async def test_a_broker_that_cannot_be_reached_is_asked_once_and_stops_no_other() -> None:
    gone, alive = Broker(failing(ConnectionFailed("gone"))), Broker(nothing)
    collector = Collector(admin_of(gone=gone, alive=alive))
    found = await collector.collect()
    assert [key.broker for key in found.brokers] == ["alive"]
    assert [key.broker for key in found.known] == ["alive", "gone"]
    assert {key.topic for key in found.topics} == set(TOPICS)
    assert gone.asked.total() == 1
    assert collector.errors == {("runtime", "gone"): 1}


async def test_a_broker_that_hangs_costs_a_few_timeouts_not_one_for_each_topic() -> None:
    slow = Broker(failing(RequestTimeout("slow"), "topic_stats"))
    collector = Collector(admin_of(slow=slow), in_flight_max=1)
    found = await collector.collect()
    assert slow.asked["topic_stats"] == TIMEOUTS_MAX
    assert found.topics == {}
    assert found.brokers
    assert [key.broker for key in found.silent] == ["slow"]


async def test_a_question_that_is_refused_stops_no_other() -> None:
    refusing = Broker(failing(RemoteRefused(1, "no", "refusing"), "runtime_info", "topic_stats", "producer_counts"))
    collector = Collector(admin_of(refusing=refusing))
    found = await collector.collect()
    assert not found.silent
    (values,) = found.brokers.values()
    assert (values.runtime, values.topic_count, values.producers) == ({}, len(TOPICS), {})
    assert found.groups.keys() == {"billing"}
    assert collector.errors["topic", "refusing"] == len(TOPICS)


async def test_messages_that_retention_took_do_not_lag() -> None:
    class Behind(Broker):
        async def topic_stats(self, topic: str) -> dict[MessageQueue, QueueStats]:
            return {MessageQueue(topic, "a", queue_id): QueueStats(185, 405) for queue_id in range(2)}

        async def progress(self, _group: str) -> dict[MessageQueue, QueueProgress]:
            places = QueueProgress(405, 5, 190), QueueProgress(405, 400, 400)
            return {MessageQueue(TOPICS[0], "a", queue_id): place for queue_id, place in enumerate(places)}

    found = await Collector(admin_of(a=Behind(nothing))).collect()
    (reader,) = found.readers.values()
    assert (reader.committed, reader.lag, reader.in_flight) == (405, 225, 5)


async def test_without_a_name_server_there_is_no_collection() -> None:
    async def cluster_info() -> ClusterInfo:
        raise ConnectionFailed("no NameServer")

    collector = Collector(SimpleNamespace(cluster_info=cluster_info))  # type: ignore[arg-type]
    with pytest.raises(ConnectionFailed):
        await collector.collect()
    assert collector.errors == {("cluster", ""): 1}


async def test_a_slave_is_asked_for_its_run_time_values_alone() -> None:
    async def cluster_info() -> ClusterInfo:
        return ClusterInfo(
            brokers={"b": BrokerData(cluster="c", broker_name="b", addresses={1: "b"})},
            clusters={"c": ("b", "unknown")},
        )

    broker = Broker(nothing)
    admin = admin_of(b=broker)
    admin.cluster_info = cluster_info
    found = await Collector(admin).collect()
    assert [key.broker_id for key in found.known] == [1]
    assert broker.asked == {"runtime_info": 1}


@pytest.mark.real
async def test_a_collection_holds_every_broker_topic_and_group() -> None:
    async with LocalCluster(brokers=2) as cluster, AdminClient(cluster.name_servers) as admin:
        await admin.create_topic(TopicConfig(topic="orders", read_queue_count=1, write_queue_count=1))
        await admin.create_group(GroupConfig(group="billing"))
        async with Producer("makers", cluster.name_servers) as producer:
            queue, *_ = await producer.queues("orders")
            sent = [await producer.send(Message("orders", b"x" * 10), queue=queue) for _ in range(3)]
            async with PullConsumer("billing", cluster.name_servers) as consumer:
                await consumer.commit({queue: sent[0].queue_offset + 1})
                (second,) = await read(consumer, queue, sent[1].queue_offset)
                collector = Collector(admin)
                found = await collector.collect()
    assert collector.errors == {}
    assert {key.broker for key in found.brokers} == {"broker-a", "broker-b"}
    assert all(values.runtime["brokerVersionDesc"] for values in found.brokers.values())
    (cluster_name,) = {key.cluster for key in found.known}
    assert found.topics[TopicKey(cluster_name, queue.broker_name, "orders")].end == 3
    (reader,) = (values for key, values in found.readers.items() if key.topic == "orders" and values.end)
    assert (reader.committed, reader.lag) == (1, 2)
    assert reader.in_flight > 0
    assert reader.waiting_since_ms == second.stored_at_ms
    assert found.groups.keys() == {"billing"}
    assert any("makers" in values.producers for values in found.brokers.values())


async def read(consumer: PullConsumer, queue: MessageQueue, offset: int) -> list[StoredMessage]:
    consumer.assign([queue])
    consumer.seek(queue, offset)
    return await consumer.poll(5_000, 1)
