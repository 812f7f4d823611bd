"""Topics: lists, routes, queues, and changes of them.

Source: Java org.apache.rocketmq.tools.command.topic of 5.3.3.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from orbitmq.admin.cluster_clients import ClusterClients
from orbitmq.admin.each_master import notices_of
from orbitmq.admin.topics import TopicChange, create_header, parse_attribute_change
from orbitmq.cli.mqadmin.nameservers import ORDER_NAMESPACE, change_each
from orbitmq.cli.mqadmin.parsing import Given
from orbitmq.cli.mqadmin.result import Result, cell, row
from orbitmq.cli.mqadmin.targets import given_masters
from orbitmq.errors import OrbitError
from orbitmq.model.route import MessageQueue, TopicRoute
from orbitmq.model.topic import DLQ_PREFIX, RETRY_PREFIX, Perm, TopicConfig, check_name
from orbitmq.net.pool import expect
from orbitmq.wire.bodies.heartbeat import queue_document
from orbitmq.wire.bodies.route import encode_route
from orbitmq.wire.headers import PutKvConfig

_AT_A_TIME = 32
_ROUTE_WIDTHS = (-45, -32, -50, -10, -11, -5)
_UNIT, _UNIT_SUB = 1, 2
"""Bits of a topic's system flag (Java: TopicSysFlag)."""


async def topic_list(clients: ClusterClients, given: Given) -> Result:
    """List all topics; with -c those of users with their clusters and groups."""
    names = await clients.admin.topic_list()
    if "clusterModel" not in given:
        return Result(names, [{"topic": name} for name in names])
    clusters = (await clients.admin.cluster_info()).clusters
    permits = asyncio.Semaphore(_AT_A_TIME)
    admin, silent = await clients.admin.groups_that_answer()

    async def look(topic: str) -> tuple[str, list[str]]:
        async with permits:
            try:
                names = _clusters_of(await clients.admin.topic_route(topic), clusters.items())
                return names[0] if names else "", await admin.of_topic(topic)
            except OrbitError:
                return "", []

    shown = [name for name in names if not name.startswith((RETRY_PREFIX, DLQ_PREFIX))]
    found = await asyncio.gather(*map(look, shown))
    lines = [row(((-20, "#Cluster Name"), (-48, "#Topic"), (-48, "#Consumer Group")))]
    rows = []
    for topic, (cluster, groups) in zip(shown, found, strict=True):
        lines += [row(((-20, cluster[:20]), (-64, topic[:64]), (-64, group[:64]))) for group in groups or [""]]
        rows.append({"cluster": cluster, "topic": topic, "groups": groups})
    return Result(lines, rows, notices_of(silent))


async def topic_status(clients: ClusterClients, given: Given) -> Result:
    """Show where each queue of a topic begins and ends, as its masters say."""
    topic, cluster = given.text("topic"), given.text("cluster")
    stats, problems = await clients.admin.known_topic_stats(topic)
    if cluster:
        names = (await clients.admin.cluster_info()).clusters.get(cluster, ())
        stats = {queue: found for queue, found in stats.items() if queue.broker_name in names}
        problems = {name: problem for name, problem in problems.items() if name in names}
    widths = (-32, -4, -20, -20)
    head = row(zip(widths, ("#Broker Name", "#QID", "#Min Offset", "#Max Offset"), strict=True))
    lines, rows = [f"{head}    #Last Updated"], []
    for queue, found in sorted(stats.items()):
        cells = (queue.broker_name[:32], queue.queue_id, found.min_offset, found.max_offset)
        lines.append(f"{row(zip(widths, cells, strict=True))}    {time_text(found.updated_at_ms)}")
        rows.append({"broker": queue.broker_name, "queue": queue.queue_id, **found._asdict()})
    return Result(lines, rows, notices_of(problems))


def time_text(at_ms: int) -> str:
    """Return a time as Java prints it (UtilAll.timeMillisToHumanString2), in this machine's zone; empty for none."""
    if at_ms <= 0:
        return ""
    return f"{datetime.fromtimestamp(at_ms / 1000):%Y-%m-%d %H:%M:%S},{at_ms % 1000:03d}"


async def topic_route(clients: ClusterClients, given: Given) -> Result:
    """Show a topic's route as JSON, or with -l as a table."""
    route = await clients.admin.topic_route(given.text("topic"))
    document: dict[str, Any] = json.loads(encode_route(route))
    if "list" not in given:
        return Result(json.dumps(document, indent=2).splitlines(), document)
    queues = {data.broker_name: data for data in route.queues}
    lines = [_route_line("#ClusterName", "#BrokerName", "#BrokerAddrs", "#ReadQueue", "#WriteQueue", "#Perm")]
    for broker in sorted(route.brokers, key=lambda broker: broker.broker_name):
        data = queues.get(broker.broker_name)
        if data is not None:
            addresses = "{" + ", ".join(f"{key}={at}" for key, at in sorted(broker.addresses.items())) + "}"
            counts = (data.read_queue_count, data.write_queue_count, data.perm)
            lines.append(_route_line(broker.cluster, broker.broker_name, addresses, *counts))
    lines.append("-" * 158)
    reads = sum(data.read_queue_count for data in queues.values())
    writes = sum(data.write_queue_count for data in queues.values())
    lines.append(_route_line("Total:", len(queues), "", reads, writes, ""))
    return Result(lines, document)


def _route_line(*cells: object) -> str:
    return " ".join(cell(width, value) for width, value in zip(_ROUTE_WIDTHS, cells, strict=True))


async def topic_cluster_list(clients: ClusterClients, given: Given) -> Result:
    """Show the clusters that have a topic."""
    route = await clients.admin.topic_route(given.text("topic"))
    names = _clusters_of(route, (await clients.admin.cluster_info()).clusters.items())
    return Result(names, [{"cluster": name} for name in names])


def _clusters_of(route: TopicRoute, clusters: Iterable[tuple[str, tuple[str, ...]]]) -> list[str]:
    """Return the clusters of the first broker of a route."""
    if not route.brokers:
        return []
    return sorted(cluster for cluster, brokers in clusters if route.brokers[0].broker_name in brokers)


async def update_topic(clients: ClusterClients, given: Given) -> Result:
    """Create a topic, or change the one that is there, on one broker or on a cluster's masters."""
    config = TopicConfig(
        topic=check_name("topic", given.text("topic")),
        read_queue_count=given.number("readQueueNums", 8),
        write_queue_count=given.number("writeQueueNums", 8),
        perm=given.number("perm", int(Perm.READ_WRITE)),
        topic_sys_flag=_UNIT * given.flag("unit") | _UNIT_SUB * given.flag("hasUnitSub"),
        order=given.flag("order"),
        attributes=_attributes(given.text("attributes")),
    )
    masters = await given_masters(clients, given)
    lines, rows = [], []
    hidden = await clients.admin.hidden_messages(config.topic, config.read_queue_count, masters)
    for address in masters.values():
        answer = await clients.pool.request(address, create_header(config), timeout_ms=clients.timeout_ms)
        expect(answer, address)
        lines.append(f"create topic to {address} success.")
        rows.append({"topic": config.topic, "address": address})
    if config.order:
        order = ";".join(f"{name}:{config.write_queue_count}" for name in masters)
        await change_each(clients, PutKvConfig(namespace=ORDER_NAMESPACE, key=config.topic, value=order))
        is_one = "brokerAddr" in given
        said = f"set {'broker' if is_one else 'cluster'} orderConf. isOrder=true, orderConf=[{order}]"
        lines.insert(0 if is_one else len(lines), said)  # Java says it in these places
    notices = [f"{count} messages on {name} are in queues that no consumer reads now" for name, count in hidden.items()]
    return Result([*lines, _config_text(config)], rows, notices=notices)


async def update_topic_perm(clients: ClusterClients, given: Given) -> Result:
    """Change a topic's permission, on one broker or on a cluster's masters."""
    topic, perm = given.text("topic"), given.number("perm", 0)
    lines, rows = [], []
    for name, address in (await given_masters(clients, given)).items():
        (before,) = (await clients.admin.topic_configs(topic, broker=name)).values()
        await clients.admin.change_topic(topic, TopicChange(perm=perm), broker=name)
        lines.append(f"update topic perm from {before.perm} to {perm} in {address} success.")
        rows.append({"topic": topic, "address": address, "before": before.perm, "after": perm})
    return Result(lines, rows)


async def delete_topic(clients: ClusterClients, given: Given) -> Result:
    """Delete a topic from a cluster's brokers and from the NameServers."""
    topic, cluster = given.text("topic"), given.text("clusterName")
    addresses = await clients.admin.delete_topic(topic, cluster=cluster)
    lines = [
        f"delete topic [{topic}] from cluster [{cluster}] success.",
        f"delete topic [{topic}] from NameServer success.",
    ]
    return Result(lines, [{"topic": topic, "address": address} for address in addresses])


async def allocate_mq(clients: ClusterClients, given: Given) -> Result:
    """Show how a topic's queues would be shared among clients of these addresses (AllocateMessageQueueAveragely)."""
    from orbitmq.client.consume.allocation import allocate_average

    topic = given.text("topic")
    route = await clients.admin.topic_route(topic)
    queues = sorted(
        MessageQueue(topic, data.broker_name, queue_id)
        for data in route.queues
        if data.perm & Perm.READ
        for queue_id in range(data.read_queue_count)
    )
    members = given.text("ipList").split(",")
    shares = {
        member: [queue_document(queue) for queue in allocate_average(queues, members, member)] for member in members
    }
    document = {"result": shares}
    return Result([json.dumps(document, separators=(",", ":"))], document)


def _attributes(text: str) -> dict[str, str]:
    return dict(parse_attribute_change(part) for part in text.split(",") if part)


def _config_text(config: TopicConfig) -> str:
    """Return a topic's settings as Java prints them (TopicConfig.toString)."""
    perm = ("R" if config.perm & Perm.READ else "-") + ("W" if config.perm & Perm.WRITE else "-")
    perm += "X" if config.perm & Perm.INHERIT else "-"
    attributes = ", ".join(f"{name}={value}" for name, value in config.attributes.items())
    return (
        f"TopicConfig [topicName={config.topic}, readQueueNums={config.read_queue_count}, "
        f"writeQueueNums={config.write_queue_count}, perm={perm}, topicFilterType={config.topic_filter_type}, "
        f"topicSysFlag={config.topic_sys_flag}, order={str(config.order).lower()}, attributes={{{attributes}}}]"
    )
