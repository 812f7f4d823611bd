"""Topics: lists, routes, queues, and changes of them.

Source: Java org.apache.rocketmq.tools.command.topic of 5.3.3.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from orbitmq.admin.cluster_clients import ClusterClients
from orbitmq.admin.each_master import ask_about, notices_of
from orbitmq.admin.topics import TopicChange, create_header
from orbitmq.cli.mqadmin.nameservers import ORDER_NAMESPACE, change_each
from orbitmq.cli.mqadmin.parsing import Given
from orbitmq.cli.mqadmin.result import Result, java_object, java_text, listed, table, time_text
from orbitmq.cli.mqadmin.targets import ask, given_masters, parse_attributes
from orbitmq.errors import OrbitError
from orbitmq.model.route import TopicRoute
from orbitmq.model.topic import DLQ_PREFIX, RETRY_PREFIX, Perm, TopicConfig, check_name
from orbitmq.wire.bodies.heartbeat import queue_document
from orbitmq.wire.bodies.route import encode_route
from orbitmq.wire.headers import PutKvConfig

_ROUTE_LAYOUT = "%-45s %-32s %-50s %-10s %-11s %-5s"
_UNIT, _UNIT_SUB = 1, 2
"""Bits of a topic's system flag (Java: TopicSysFlag)."""


async def topic_list(clients: ClusterClients, given: Given) -> Result:
    """List all topics; with -c those of users with their clusters and groups."""
    names = await clients.admin.topic_list()
    if "clusterModel" not in given:
        return Result(names, [{"topic": name} for name in names])
    clusters = (await clients.admin.cluster_info()).clusters
    admin, silent = await clients.admin.groups_that_answer()

    async def look(topic: str) -> tuple[str, list[str]]:
        try:
            names = _clusters_of(await clients.admin.topic_route(topic), clusters.items())
            return names[0] if names else "", await admin.of_topic(topic)
        except OrbitError:
            return "", []

    shown = [name for name in names if not name.startswith((RETRY_PREFIX, DLQ_PREFIX))]
    found = await ask_about(shown, look)
    rows: list[dict[str, Any]] = [
        {"cluster": cluster, "topic": topic, "groups": groups}
        for topic, (cluster, groups) in zip(shown, found, strict=True)
    ]
    cells = ((row["cluster"], row["topic"], group) for row in rows for group in row["groups"] or [""])
    titles = "#Cluster Name|#Topic|#Consumer Group"
    lines = table("%-20.20s  %-64.64s  %-64.64s", titles, cells, titles_layout="%-20s  %-48s  %-48s")
    return Result(lines, rows, notices_of(silent))


async def topic_status(clients: ClusterClients, given: Given) -> Result:
    """Show where each queue of a topic begins and ends, as its masters say."""
    topic, cluster = given.text("topic"), given.text("cluster")
    stats, problems = await clients.admin.known_topic_stats(topic)
    if cluster:
        names = (await clients.admin.cluster_info()).clusters.get(cluster, ())
        stats = {queue: found for queue, found in stats.items() if queue.broker_name in names}
        problems = {name: problem for name, problem in problems.items() if name in names}
    cells = (
        (queue.broker_name, queue.queue_id, found.min_offset, found.max_offset, time_text(found.updated_at_ms))
        for queue, found in sorted(stats.items())
    )
    titles = "#Broker Name|#QID|#Min Offset|#Max Offset|#Last Updated"
    lines = table("%-32.32s  %-4s  %-20s  %-20s    %s", titles, cells)
    rows = [
        {"broker": queue.broker_name, "queue": queue.queue_id, **found._asdict()}
        for queue, found in sorted(stats.items())
    ]
    return Result(lines, rows, notices_of(problems))


async def topic_route(clients: ClusterClients, given: Given) -> Result:
    """Show a topic's route as JSON, or with -l as a table."""
    route = await clients.admin.topic_route(given.text("topic"))
    document: dict[str, Any] = json.loads(encode_route(route))
    if "list" not in given:
        return Result(json.dumps(document, indent=2).splitlines(), document)
    queues = {data.broker_name: data for data in route.queues}
    cells: list[tuple[object, ...]] = []
    for broker in sorted(route.brokers, key=lambda broker: broker.broker_name):
        data = queues.get(broker.broker_name)
        if data is not None:
            addresses = java_text(dict(sorted(broker.addresses.items())))
            counts = (data.read_queue_count, data.write_queue_count, data.perm)
            cells.append((broker.cluster, broker.broker_name, addresses, *counts))
    reads = sum(data.read_queue_count for data in queues.values())
    writes = sum(data.write_queue_count for data in queues.values())
    titles = "#ClusterName|#BrokerName|#BrokerAddrs|#ReadQueue|#WriteQueue|#Perm"
    total = _ROUTE_LAYOUT % ("Total:", len(queues), "", reads, writes, "")
    return Result([*table(_ROUTE_LAYOUT, titles, cells), "-" * 158, total], document)


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
        attributes=parse_attributes(given),
    )
    masters = await given_masters(clients, given)
    hidden = await clients.admin.hidden_messages(config.topic, config.read_queue_count, masters)
    for address in masters.values():
        await ask(clients, address, create_header(config))
    lines = [f"create topic to {address} success." for address in masters.values()]
    rows = [{"topic": config.topic, "address": address} for address in masters.values()]
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
    rows = []
    for name, address in (await given_masters(clients, given)).items():
        (before,) = (await clients.admin.topic_configs(topic, broker=name)).values()
        await clients.admin.change_topic(topic, TopicChange(perm=perm), broker=name)
        rows.append({"topic": topic, "address": address, "before": before.perm, "after": perm})
    return listed("update topic perm from {before} to {after} in {address} success.", rows)


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
    from orbitmq.client.routing.route_queues import readable_queues

    topic = given.text("topic")
    queues = readable_queues(topic, await clients.admin.topic_route(topic))
    members = given.text("ipList").split(",")
    shares = {
        member: [queue_document(queue) for queue in allocate_average(queues, members, member)] for member in members
    }
    document = {"result": shares}
    return Result([json.dumps(document, separators=(",", ":"))], document)


def _config_text(config: TopicConfig) -> str:
    """Return a topic's settings as Java prints them (TopicConfig.toString)."""
    perm = ("R" if config.perm & Perm.READ else "-") + ("W" if config.perm & Perm.WRITE else "-")
    perm += "X" if config.perm & Perm.INHERIT else "-"
    return java_object(
        "TopicConfig",
        topicName=config.topic,
        readQueueNums=config.read_queue_count,
        writeQueueNums=config.write_queue_count,
        perm=perm,
        topicFilterType=config.topic_filter_type,
        topicSysFlag=config.topic_sys_flag,
        order=config.order,
        attributes=config.attributes,
    )
