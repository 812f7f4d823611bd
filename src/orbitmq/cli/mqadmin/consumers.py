"""Groups: how far they are, who is connected, their settings, and changes of them.

Where Java says nothing and ends with 0, ours says what is wrong and ends with 1: `getConsumerConfig` of a group that is not
there. `getConsumerConfig` reads the table of all groups: a Java broker makes a group whose settings are asked for.

Source: Java org.apache.rocketmq.tools.command.consumer, .connection and BrokerConsumeStatsSubCommad of 5.3.3.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from orbitmq.admin.cluster_clients import ClusterClients
from orbitmq.admin.each_master import ask_about, ask_each, notices_of
from orbitmq.admin.group_client import delete_topics
from orbitmq.cli.mqadmin.files import file_name, write_file
from orbitmq.cli.mqadmin.parsing import Given
from orbitmq.cli.mqadmin.result import Result, java_object, java_text, listed, queue_text, seconds_text, table
from orbitmq.cli.mqadmin.targets import ask, ask_first, group_route, parse_attributes, tell_masters
from orbitmq.codes import version_name
from orbitmq.errors import ClientError, InvalidArgument, OrbitError
from orbitmq.model.delay_levels import DELAY_LEVELS
from orbitmq.model.group import ConsumerInfo, ConsumeType
from orbitmq.model.route import MessageQueue
from orbitmq.model.topic import GROUP_LENGTH_MAX, RETRY_PREFIX, check_name
from orbitmq.wire.bodies.consumer_info import QueueInfo, RunningInfo, decode_running_info, queue_info_document
from orbitmq.wire.bodies.groups import (
    ClientConnection,
    GroupConfig,
    decode_consumer_connections,
    decode_group_config,
    decode_group_table,
    decode_producer_connections,
    encode_group_config,
    group_document,
)
from orbitmq.wire.bodies.stats import decode_broker_consume_stats
from orbitmq.wire.bodies.topics import QueueProgress, decode_consume_rate, decode_consume_stats
from orbitmq.wire.headers import (
    DeleteSubscriptionGroup,
    GetAllSubscriptionGroups,
    GetBrokerConsumeStats,
    GetConsumerConnections,
    GetConsumeStats,
    GetProducerConnections,
    GetRunningInfo,
    SetRequestMode,
    UpdateSubscriptionGroup,
)

_BLOCKED_MS = 60_000
_SETTLED_MS = 120_000
"""A client that has run for less may not have the others' subscriptions yet."""


_QUEUE_LAYOUT = "%-32s  %-32s  %-4s  %-20s"
_WIDE_QUEUE_LAYOUT = "%-64s  %-32s  %-4s  %-20s"


class Progress(NamedTuple):
    """A group's place in every queue that it reads, and how many messages a second it gets.

    Args:
        silent: the brokers that did not answer, and why; theirs are missing.
    """

    queues: Mapping[MessageQueue, QueueProgress]
    rate: float
    silent: Mapping[str, str]


async def find_progress(
    clients: ClusterClients,
    group: str,
    topic: str = "",
    cluster: str = "",
    *,
    broker: str = "",
    silent: Mapping[str, str] = MappingProxyType({}),
) -> Progress:
    """Ask all brokers of a group together, or the one of a name, how far it is.

    Args:
        silent: brokers that are not asked.

    Raises:
        ClientError: no broker knows the group, or none answers.
    """
    route = await group_route(clients, group, topic, cluster)

    async def find(name: str, address: str) -> bytes:
        if name in silent:
            raise ClientError(silent[name])
        header = GetConsumeStats(consumer_group=group, topic=topic)
        return (await ask(clients, address, header, timeout_ms=3 * clients.timeout_ms)).body

    wanted = {name: address for name, address in route.addresses.items() if broker in ("", name)}
    bodies, problems = await ask_each(wanted, find, needs_one=True)
    queues = {queue: place for body in bodies.values() for queue, place in decode_consume_stats(body).items()}
    return Progress(queues, sum(map(decode_consume_rate, bodies.values())), problems)


async def find_connections(
    clients: ClusterClients, group: str, address: str = "", *, silent: Collection[str] = ()
) -> tuple[tuple[ClientConnection, ...], ConsumerInfo]:
    """Return a group's clients as one broker knows them.

    Args:
        silent: names of brokers that are not asked.

    Raises:
        ClientError: none is online.
    """
    header = GetConsumerConnections(consumer_group=group)
    if address:
        answer = await ask(clients, address, header)
    else:
        answer = await ask_first(clients, await group_route(clients, group), header, silent)
    return decode_consumer_connections(answer.body, group)


async def consumer_progress(clients: ClusterClients, given: Given) -> Result:
    """Show how far every group is; with -g one of them, queue by queue."""
    group = given.text("groupName")
    silent = await clients.admin.silent_masters()
    return await (_progress_of_all(clients, silent) if not group else _progress_of_one(clients, group, given, silent))


async def _progress_of_one(clients: ClusterClients, group: str, given: Given, silent: Mapping[str, str]) -> Result:
    found = await find_progress(clients, group, given.text("topicName"), given.text("cluster"), silent=silent)
    if not found.queues:
        await find_connections(clients, group, silent=silent)  # it says so where none is online, either
    owners = await _owners(clients, group, silent) if given.flag("showClientIP") else None
    rows: list[dict[str, Any]] = [
        _queue_row(queue)
        | place._asdict()
        | {
            "behind": place.behind,
            "in_flight": place.in_flight,
        }
        | ({} if owners is None else {"client": owners.get(queue, "N/A")})
        for queue, place in sorted(found.queues.items())
    ]
    client = () if owners is None else ("client",)
    names = ("topic", "broker", "queue", "broker_offset", "consumer_offset", *client, "behind", "in_flight")
    lines = table(
        f"%-64.64s  %-32.32s  %-4s  %-20s  %-20s  {'%-20s ' * len(client)}%-20s %-20s%s",
        f"#Topic|#Broker Name|#QID|#Broker Offset|#Consumer Offset|{'#Client IP|' * len(client)}#Diff|#Inflight|#LastTime",
        ((*(row[name] for name in names), f" {_last_time(row['consumed_at_ms']) or 'N/A'}") for row in rows),
    )
    lines += ["", f"Consume TPS: {found.rate:.2f}", f"Consume Diff Total: {sum(row['behind'] for row in rows)}"]
    lines.append(f"Consume Inflight Total: {sum(row['in_flight'] for row in rows)}")
    return Result(lines, rows, notices_of(found.silent))


def _queue_row(queue: MessageQueue) -> dict[str, Any]:
    return {"topic": queue.topic, "broker": queue.broker_name, "queue": queue.queue_id}


def _last_time(at_ms: int) -> str:
    return seconds_text(at_ms) if at_ms > 0 else ""


async def _owners(clients: ClusterClients, group: str, silent: Collection[str]) -> dict[MessageQueue, str]:
    """Return for each queue the host of the client that reads it; empty when no client tells."""
    try:
        found, _ = await find_connections(clients, group, silent=silent)
        infos = {
            client.client_id: await running_info(clients, group, client.client_id, silent=silent) for client in found
        }
    except OrbitError:
        return {}
    return {queue: name.partition("@")[0] for name, info in infos.items() for queue in info.queues}


async def _progress_of_all(clients: ClusterClients, silent: Mapping[str, str]) -> Result:
    names = [name for name in await clients.admin.topic_list() if name.startswith(RETRY_PREFIX)]

    async def look(group: str) -> dict[str, Any]:
        shown: dict[str, Any] = {"group": group, "count": 0, "version": "OFFLINE", "type": "", "model": ""}
        try:
            progress = await find_progress(clients, group, silent=silent)
            behind = sum(place.behind for place in progress.queues.values())
            shown |= {"rate": int(progress.rate), "behind": behind}
        except OrbitError:
            shown |= {"rate": 0, "behind": None if silent else 0}
        try:
            found, info = await find_connections(clients, group, silent=silent)
        except OrbitError:
            return shown
        kind = "PULL" if info.consume_type is ConsumeType.PULL else "PUSH"
        model = info.message_model if info.consume_type is ConsumeType.PUSH else ""
        version = version_name(min(client.version for client in found))
        return shown | {"count": len(found), "version": version, "type": kind, "model": str(model)}

    rows = await ask_about([name.removeprefix(RETRY_PREFIX).partition("+")[0] for name in names], look)
    cells = ((*list(row.values())[:5], row["rate"], "?" if row["behind"] is None else row["behind"]) for row in rows)
    titles = "#Group|#Count|#Version|#Type|#Model|#TPS|#Diff Total"
    lines = table("%-64.64s  %-6s  %-24s %-5s  %-14s  %-7s  %s", titles, cells)
    return Result(lines, rows, notices_of(silent))


async def consumer_connection(clients: ClusterClients, given: Given) -> Result:
    """Show the clients of a group and what they subscribe to."""
    group = given.text("consumerGroup")
    found, info = await find_connections(clients, group, given.text("brokerAddr"))

    clients_shown = ((one.client_id, one.address, one.language, version_name(one.version)) for one in found)
    lines = table("%-36s %-22s %-10s %s", "#ClientId|#ClientAddr|#Language|#Version", clients_shown)
    subscriptions = ((one.topic, one.expression) for one in info.subscriptions)
    lines += ["", "Below is subscription:", *table("%-20s %s", "#Topic|#SubExpression", subscriptions)]
    lines += ["", f"ConsumeType: {info.consume_type}", f"MessageModel: {info.message_model}"]
    lines.append(f"ConsumeFromWhere: {info.consume_from}")
    document = {
        "clients": [one._asdict() | {"version_name": version_name(one.version)} for one in found],
        "subscriptions": [{"topic": one.topic, "expression": one.expression} for one in info.subscriptions],
        "consumeType": info.consume_type,
        "messageModel": info.message_model,
        "consumeFromWhere": info.consume_from,
    }
    return Result(lines, document)


async def producer_connection(clients: ClusterClients, given: Given) -> Result:
    """Show the producers of a group that are connected to a broker of a topic."""
    route = await clients.admin.topic_route(given.text("topic"))
    answer = await ask_first(clients, route, GetProducerConnections(producer_group=given.text("producerGroup")))
    found = decode_producer_connections(answer.body)
    lines = [
        f"{number:04d}  {one.client_id:<32} {one.address:<22} {one.language:<8} {version_name(one.version)}"
        for number, one in enumerate(found, 1)
    ]
    return Result(lines, [one._asdict() | {"version_name": version_name(one.version)} for one in found])


async def broker_consume_stats(clients: ClusterClients, given: Given) -> Result:
    """Show how far every group of a broker is, without the queues that are less than -l messages behind."""
    header = GetBrokerConsumeStats(is_order=given.flag("order"))
    timeout_ms = given.number("timeoutMillis", 50_000)
    answer = await ask(clients, given.text("brokerAddr"), header, timeout_ms=timeout_ms)
    groups, total = decode_broker_consume_stats(answer.body)
    level = given.number("level", 0)
    rows: list[dict[str, Any]] = [
        {"topic": queue.topic, "group": group, "broker": queue.broker_name, "queue": queue.queue_id}
        | place._asdict()
        | {"behind": place.behind}
        for group, topics in groups.items()
        for queues in topics
        for queue, place in sorted(queues.items())
        if place.behind >= level and place.consumed_at_ms > 0
    ]
    names = ("topic", "group", "broker", "queue", "broker_offset", "consumer_offset", "behind")
    lines = table(
        "%-64.64s  %-64s  %-32.32s  %-4s  %-20s  %-20s  %-20s  %s",
        "#Topic|#Group|#Broker Name|#QID|#Broker Offset|#Consumer Offset|#Diff|#LastTime",
        ((*(row[name] for name in names), seconds_text(row["consumed_at_ms"])) for row in rows),
    )
    return Result([*lines, "", f"Diff Total: {total}"], {"queues": rows, "behind": total})


async def running_info(
    clients: ClusterClients, group: str, client_id: str, *, with_stacks: bool = False, silent: Collection[str] = ()
) -> RunningInfo:
    """Ask a client of a group for everything that it says of itself.

    Args:
        silent: names of brokers that are not asked.

    Raises:
        ClientError: no broker knows the client, or it does not answer.
    """
    header = GetRunningInfo(consumer_group=group, client_id=client_id, jstack_enable=with_stacks)
    return decode_running_info((await ask_first(clients, await group_route(clients, group), header, silent)).body)


async def consumer_status(clients: ClusterClients, given: Given) -> Result:
    """Show what one client of a group says of itself; without -i write it to a file for each of them, and check them.

    The files lie in a directory that is named by the time, in the one that the command runs in.
    """
    group, client_id, has_stacks = given.text("consumerGroup"), given.text("clientId"), "jstack" in given
    found, _ = await find_connections(clients, group, given.text("brokerAddr"))
    if client_id:
        info = await running_info(clients, group, client_id, with_stacks=has_stacks)
        return Result(_status_text(info), _status_document(client_id, info))
    directory = Path(str(time.time_ns() // 1_000_000))

    cells: list[tuple[object, ...]] = []
    problems = []
    infos: dict[str, RunningInfo] = {}
    for client in found:
        try:
            info = await running_info(clients, group, client.client_id, with_stacks=has_stacks)
        except OrbitError as error:
            problems.append(str(error))
            continue
        infos[client.client_id] = info
        path = directory / file_name(client.client_id)
        write_file(path, "\n".join(_status_text(info)).encode() + b"\n")
        cells.append((len(infos), client.client_id, version_name(client.version), path))
    lines = table("%-10s %-40s %-20s %s", "#Index|#ClientId|#Version|#ConsumerRunningInfoFile", cells)
    if infos:
        lines += ["", "", *_findings(infos)]
    return Result(lines, [_status_document(name, info) for name, info in infos.items()], problems)


def _findings(infos: Mapping[str, RunningInfo]) -> list[str]:
    now_ms = time.time_ns() // 1_000_000
    first = infos[min(infos)]
    subscriptions = {frozenset((one.topic, one.expression) for one in info.subscriptions) for info in infos.values()}
    if len(subscriptions) > 1 and _is_push(first) and now_ms - _started_at_ms(first) > _SETTLED_MS:
        return ["WARN: Different subscription in the same group of consumer!!!"]
    lines = ["Same subscription in the same group of consumer", "", "Rebalance OK"]
    for client_id, info in sorted(infos.items()):
        if _is_push(info):
            is_ordered = info.properties.get("PROP_CONSUMEORDERLY", "").lower() == "true"
            for queue, state in info.queues.items():
                name = queue_text(queue)
                if is_ordered and not state.is_locked:
                    lines.append(f"{client_id} {name} can't lock for a while, {now_ms - state.locked_at_ms}ms")
                elif is_ordered and state.is_dropped and state.unlock_tries > 0:
                    lines.append(f"{client_id} {name} unlock {state.unlock_tries} times, still failed")
                elif not is_ordered and state.cached_count > 0 and now_ms - state.consumed_at_ms > _BLOCKED_MS:
                    waited_ms = now_ms - state.consumed_at_ms
                    lines.append(f"{client_id} {name} can't consume for a while, maybe blocked, {waited_ms}ms")
    return lines


def _is_push(info: RunningInfo) -> bool:
    return info.properties.get("PROP_CONSUME_TYPE") == ConsumeType.PUSH


def _started_at_ms(info: RunningInfo) -> int:
    text = info.properties.get("PROP_CONSUMER_START_TIMESTAMP", "")
    return int(text) if text.isdecimal() else 0


def _status_text(info: RunningInfo) -> list[str]:
    """Return what a client says of itself as Java prints it (ConsumerRunningInfo.formatString)."""
    offsets = ((*queue, state.commit_offset) for queue, state in info.queues.items())
    details = ((*queue, _process_queue_text(state)) for queue, state in info.queues.items())
    pops = ((*queue, _pop_text(state)) for queue, state in info.pop_queues.items())
    rates = (
        (topic, one.pull_ms, one.pull_rate, one.consume_ms, one.done_rate, one.failed_rate, one.failed_count)
        for topic, one in info.statistics.items()
    )
    titles = "#Topic|#Broker Name|#QID|"
    lines = ["#Consumer Properties#", *_pairs(info.properties), "", "", "#Consumer Subscription#"]
    for number, found in enumerate(info.subscriptions, 1):
        is_class = java_text(found.class_filter_mode)
        lines.append(
            f"{number:03d} Topic: {found.topic:<40} ClassFilter: {is_class:<8} SubExpression: {found.expression}"
        )
    lines += ["", "", "#Consumer Offset#"]
    lines += table(_QUEUE_LAYOUT, f"{titles}#Consumer Offset", offsets, titles_layout=_WIDE_QUEUE_LAYOUT)
    lines += ["", "", "#Consumer MQ Detail#"]
    layout = "%-64s  %-32s  %-4s  %s"
    lines += table(layout, f"{titles}#ProcessQueueInfo", details, titles_layout=_WIDE_QUEUE_LAYOUT)
    lines += ["", "", "#Consumer Pop Detail#"]
    lines += table("%-32s  %-32s  %-4s  %s", f"{titles}#ProcessQueueInfo", pops, titles_layout=_QUEUE_LAYOUT)
    lines += ["", "", "#Consumer RT&TPS#"]
    lines += table(
        "%-32s  %14.2f %14.2f %14.2f %14.2f %18.2f %25d",
        "#Topic|#Pull RT|#Pull TPS|#Consume RT|#ConsumeOK TPS|#ConsumeFailed TPS|#ConsumeFailedMsgsInHour",
        rates,
        titles_layout="%-64s  %14s %14s %14s %14s %18s %25s",
    )
    if info.user_info is not None:
        lines += ["", "", "#User Consume Info#", *_pairs(info.user_info)]
    if info.stacks is not None:
        lines += ["", "", "#Consumer jstack#", *info.stacks.splitlines()]
    return lines


def _pairs(values: Mapping[str, str]) -> list[str]:
    return [f"{key:<40}: {value}" for key, value in values.items()]


def _process_queue_text(state: QueueInfo) -> str:
    """Return a queue's state as Java prints it (ProcessQueueInfo.toString)."""

    def at(time_ms: int) -> str:
        return f"{datetime.fromtimestamp(time_ms / 1000):%Y%m%d%H%M%S}{time_ms % 1000:03d}"

    fields = queue_info_document(state).items()
    return java_object(
        "ProcessQueueInfo", **{key: at(value) if key.endswith("Timestamp") else value for key, value in fields}
    )


def _pop_text(state: Mapping[str, Any]) -> str:
    dropped = java_text(bool(state.get("droped")))
    return (
        f"PopProcessQueueInfo [waitAckCount:{state.get('waitAckCount', 0)}, droped:{dropped}, "
        f"lastPopTimestamp:{state.get('lastPopTimestamp', 0)}]"
    )


def _status_document(client_id: str, info: RunningInfo) -> dict[str, Any]:

    def values(found: object) -> dict[str, Any]:
        return {name: getattr(found, name) for name in type(found).__slots__}  # type: ignore[attr-defined]

    return {
        "client": client_id,
        "properties": dict(info.properties),
        "subscriptions": [{"topic": one.topic, "expression": one.expression} for one in info.subscriptions],
        "queues": [_queue_row(queue) | values(state) for queue, state in info.queues.items()],
        "pop_queues": [_queue_row(queue) | dict(state) for queue, state in info.pop_queues.items()],
        "statistics": {topic: values(found) for topic, found in info.statistics.items()},
        "user_info": dict(info.user_info or {}),
        "stacks": info.stacks,
    }


async def get_consumer_config(clients: ClusterClients, given: Given) -> Result:
    """Show a group's settings on every broker."""
    group = given.text("groupName")
    info = await clients.admin.cluster_info()
    clusters = {name: cluster for cluster, names in info.clusters.items() for name in names}
    lines, rows = [], []
    for name, data in sorted(info.brokers.items()):
        address = data.first_address
        table = decode_group_table((await ask(clients, address, GetAllSubscriptionGroups())).body)
        config = table.groups.get(group)
        if config is None:
            continue
        bar = "=" * 29
        lines.append(f"{bar}{clusters.get(name)}:{name}{bar}")
        lines += [f"{key:<40}=  {value}" for key, value in _settings(config, none="")]
        rows.append({"cluster": clusters.get(name), "broker": name, "settings": group_document(config)})
    problems = [] if rows else [f"no broker knows the group {group}"]
    return Result(lines, rows, problems)


def _settings(config: GroupConfig, *, none: str) -> list[tuple[str, str]]:
    """Return a group's settings in Java's order, each as its toString gives it."""
    document = group_document(config)
    names = (
        "groupName", "consumeEnable", "consumeFromMinEnable", "consumeBroadcastEnable", "consumeMessageOrderly",
        "retryQueueNums", "retryMaxTimes", "groupRetryPolicy", "brokerId", "whichBrokerWhenConsumeSlowly",
        "notifyConsumerIdsChangedEnable", "groupSysFlag", "consumeTimeoutMinute", "subscriptionDataSet", "attributes",
    )  # fmt: skip
    return [(name, none if document.get(name) is None else _java_text(name, document[name])) for name in names]


_CLASSES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "groupRetryPolicy": (
        "GroupRetryPolicy",
        {"type": "CUSTOMIZED", "exponentialRetryPolicy": None, "customizedRetryPolicy": None},
    ),
    "exponentialRetryPolicy": ("ExponentialRetryPolicy", {"initial": 5_000, "max": 7_200_000, "multiplier": 2}),
    "customizedRetryPolicy": ("CustomizedRetryPolicy", {"next": list(DELAY_LEVELS.delays_ms)}),
    "subscriptionDataSet": (
        "SimpleSubscriptionData",
        {"topic": None, "expressionType": None, "expression": None, "version": 0},
    ),
}
"""Java's classes by the field that holds one, with the defaults of their own fields."""


def _java_text(name: str, value: Any) -> str:
    """Return a value as Java's toString does."""
    if isinstance(value, list):
        return f"[{', '.join(_java_text(name, part) for part in value)}]"
    if isinstance(value, dict) and name in _CLASSES:
        title, defaults = _CLASSES[name]
        texts = (f"{key}={_java_text(key, value.get(key, default))}" for key, default in defaults.items())
        return f"{title}{{{', '.join(texts)}}}"
    return java_text(value)


async def update_sub_group(clients: ClusterClients, given: Given) -> Result:
    """Create a group, or change its settings, on one broker or on a cluster's masters: what is not said gets its default."""
    document: dict[str, Any] = {
        "groupName": check_name("group", given.text("groupName"), GROUP_LENGTH_MAX),
        "consumeEnable": given.flag("consumeEnable", True),
        "consumeFromMinEnable": given.flag("consumeFromMinEnable"),
        "consumeBroadcastEnable": given.flag("consumeBroadcastEnable"),
        "consumeMessageOrderly": given.flag("consumeMessageOrderly"),
        "retryQueueNums": given.number("retryQueueNums", 1),
        "retryMaxTimes": given.number("retryMaxTimes", 16),
        "brokerId": given.number("brokerId", 0),
        "whichBrokerWhenConsumeSlowly": given.number("whichBrokerWhenConsumeSlowly", 1),
        "notifyConsumerIdsChangedEnable": given.flag("notifyConsumerIdsChanged", True),
    }
    if "groupRetryPolicy" in given:
        document["groupRetryPolicy"] = _json_object("groupRetryPolicy", given.text("groupRetryPolicy"))
    if "attributes" in given:
        document["attributes"] = parse_attributes(given)
    config = decode_group_config(json.dumps(document).encode())
    addresses = await tell_masters(clients, given, UpdateSubscriptionGroup(), encode_group_config(config))
    text = ", ".join(f"{name}={value}" for name, value in _settings(config, none="null"))
    lines = [f"create subscription group to {address} success." for address in addresses]
    rows = [{"group": config.group, "address": address} for address in addresses]
    return Result([*lines, f"SubscriptionGroupConfig{{{text}}}"], rows)


def _json_object(name: str, text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise InvalidArgument(f"--{name}", text, "a JSON object")
    return found


async def delete_sub_group(clients: ClusterClients, given: Given) -> Result:
    """Delete a group from one broker, or from a cluster with the topics of its retries and dead letters."""
    group, cluster = given.text("groupName"), given.text("clusterName")
    header = DeleteSubscriptionGroup(group_name=group, clean_offset=given.flag("removeOffset"))
    rows = [{"group": group, "address": address} for address in await tell_masters(clients, given, header)]
    if "brokerAddr" in given:
        return listed("delete subscription group [{group}] from broker [{address}] success.", rows)
    await delete_topics(lambda topic: clients.admin.delete_topic(topic, cluster=cluster), group)
    lines = [
        f"delete subscription group [{group}] from broker [{row['address']}] in cluster [{cluster}] success."
        for row in rows
    ]
    return Result(lines, rows)


async def set_consume_mode(clients: ClusterClients, given: Given) -> Result:
    """Let a group pull a topic's messages, or pop them."""
    from orbitmq.wire.pop.assignments import POP, PULL, RequestMode, encode_request_mode

    mode = given.text("mode")
    if mode not in (PULL, POP):
        raise InvalidArgument("--mode", mode, f"{PULL} or {POP}")
    wanted = RequestMode(given.text("topicName"), given.text("groupName"), mode, given.number("popShareQueueNum", 0))
    addresses = await tell_masters(clients, given, SetRequestMode(), encode_request_mode(wanted))
    lines = [f"set consume mode to {address} success." for address in addresses]
    lines.append(
        f"topic[{wanted.topic}] group[{wanted.group}] consume mode[{mode}] popShareQueueNum[{wanted.share_queue_count}]"
    )
    return Result(lines, [{**wanted._asdict(), "address": address} for address in addresses])
