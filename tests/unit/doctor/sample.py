"""A snapshot without any issue, and changes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from orbitmq.admin.groups import GroupStatus
from orbitmq.admin.route_comparison import snapshot_of
from orbitmq.doctor.snapshot import BrokerFacts, GroupFacts, NameServerFacts, Snapshot
from orbitmq.model.group import MessageModel, Subscription
from orbitmq.model.route import BrokerData, ClusterInfo, MessageQueue, QueueData, TopicRoute
from orbitmq.model.topic import TopicConfig
from orbitmq.wire.bodies.consumer_info import ConsumeStatus, QueueInfo, RunningInfo
from orbitmq.wire.bodies.groups import ClientConnection, GroupConfig
from orbitmq.wire.bodies.topics import QueueStats

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
TOPIC, GROUP = "orders", "billing"
NAMES = ("a", "b")
QUEUES = [MessageQueue(TOPIC, name, queue_id) for name in NAMES for queue_id in range(2)]


def broker(name: str, broker_id: int = 0, **changes: Any) -> BrokerFacts:
    """A broker that is well."""
    facts = BrokerFacts(
        cluster="c",
        name=name,
        broker_id=broker_id,
        address=f"host-{name}{broker_id}:10911",
        queried_at_ms=NOW_MS,
        runtime={
            "bootTimestamp": str(NOW_MS - 60_500),
            "runtime": "[ 0 days, 0 hours, 1 minutes, 0 seconds ]",
            "brokerVersionDesc": "V5_3_3",
            "commitLogDiskRatio": "0.2",
            "commitLogMaxOffset": "1000",
        },
        settings={"fileReservedTime": "72", "timerWheelEnable": "true"},
        topics={} if broker_id else {TOPIC: TopicConfig(topic=TOPIC, read_queue_count=2, write_queue_count=2)},
        groups={} if broker_id else {GROUP: GroupConfig(group=GROUP)},
        health={"alerts": [], "warnings": [], "fileLimit": 100_000},
    )
    return replace(facts, **changes)


def route(order_topic_conf: str | None = None) -> TopicRoute:
    """The route of the topic."""
    return TopicRoute(
        queues=tuple(QueueData(broker_name=name, read_queue_count=2, write_queue_count=2, perm=6) for name in NAMES),
        brokers=tuple(
            BrokerData(cluster="c", broker_name=name, addresses={0: f"host-{name}0:10911", 1: f"host-{name}1:10911"})
            for name in NAMES
        ),
        order_topic_conf=order_topic_conf,
    )


def name_server(address: str = "ns1:9876", **changes: Any) -> NameServerFacts:
    """A NameServer that is well."""
    brokers = {data.broker_name: data for data in route().brokers}
    info = ClusterInfo(brokers=brokers, clusters={"c": NAMES})
    facts = NameServerFacts(
        address=address,
        info=info,
        routes=snapshot_of(info, {TOPIC: route()}),
        health={"alerts": [], "warnings": [], "fileLimit": 100_000},
    )
    return replace(facts, **changes)


def client(*queues: MessageQueue, tags: str = "*", **changes: Any) -> RunningInfo:
    """A client that reads these queues."""
    facts = RunningInfo(
        properties={},
        subscriptions=(Subscription(topic=TOPIC, expression=tags), Subscription(topic=f"%RETRY%{GROUP}")),
        queues={queue: QueueInfo() for queue in queues},
        statistics={TOPIC: ConsumeStatus(consume_ms=5, done_rate=10)},
    )
    return replace(facts, **changes)


def group(clients: Mapping[str, RunningInfo], delays: Mapping[MessageQueue, int] | None = None) -> GroupFacts:
    """A group whose members are these."""
    status = GroupStatus(
        group=GROUP,
        settings={},
        clients=tuple(
            ClientConnection(client_id=client_id, address="1.2.3.4:5", language="JAVA", version=475)
            for client_id in clients
        ),
        message_model=MessageModel.CLUSTERING if clients else None,
        subscriptions={TOPIC: "*", f"%RETRY%{GROUP}": "*"} if clients else {},
    )
    return GroupFacts(status=status, clients=clients, delays=delays or {})


def sample(**changes: Any) -> Snapshot:
    """A cluster of two brokers with a slave each, one topic, one group of two members: nothing is wrong."""
    snapshot = Snapshot(
        taken_at_ms=NOW_MS,
        name_servers=(name_server(), name_server("ns2:9876")),
        brokers=tuple(broker(name, broker_id) for name in NAMES for broker_id in (0, 1)),
        routes={TOPIC: route()},
        queues={queue: QueueStats(100, 200, NOW_MS) for queue in QUEUES},
        groups={GROUP: group({"one": client(*QUEUES[:2]), "two": client(*QUEUES[2:])})},
        committed={GROUP: dict.fromkeys(QUEUES, 200)},
    )
    return replace(snapshot, **changes)
