"""Groups: how far they are, who is connected, their settings, and changes of them.

Where Java says nothing and ends with 0, ours says what is wrong and ends with 1: `getConsumerConfig` of a group that is not
there. `getConsumerConfig` reads the table of all groups: a Java broker makes a group whose settings are asked for.

Source: Java org.apache.rocketmq.tools.command.consumer, .connection and BrokerConsumeStatsSubCommad of 5.3.3.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Collection, Mapping
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from orbitmq.admin.cluster_clients import ClusterClients
from orbitmq.admin.each_master import ask_each, notices_of
from orbitmq.admin.group_client import delete_topics
from orbitmq.cli.mqadmin.files import file_name, write_file
from orbitmq.cli.mqadmin.parsing import Given
from orbitmq.cli.mqadmin.result import Result, cell, row
from orbitmq.cli.mqadmin.targets import addresses_of, ask, ask_first, given_masters, group_route
from orbitmq.codes import version_name
from orbitmq.errors import ClientError, InvalidArgument, OrbitError
from orbitmq.model.group import ConsumerInfo, ConsumeType
from orbitmq.model.route import MASTER_ID, MessageQueue
from orbitmq.model.topic import RETRY_PREFIX, check_name
from orbitmq.wire.bodies.consumer_info import QueueInfo, RunningInfo, decode_running_info
from orbitmq.wire.bodies.document import parse_body
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
from orbitmq.wire.bodies.heartbeat import parse_queue
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

_AT_A_TIME = 32
_GROUP_LENGTH_MAX = 255
_BLOCKED_MS = 60_000
_SETTLED_MS = 120_000
"""A client that has run for less may not have the others' subscriptions yet."""


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

    wanted = {name: address for name, address in addresses_of(route).items() if broker in ("", name)}
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
    titles = ["#Topic", "#Broker Name", "#QID", "#Broker Offset", "#Consumer Offset"]
    lines = [_progress_line(titles, None if owners is None else "#Client IP", ["#Diff", "#Inflight"]) + "#LastTime"]
    rows: list[dict[str, Any]] = []
    behind = in_flight = 0
    for queue, place in sorted(found.queues.items()):
        lag = place.broker_offset - place.consumer_offset
        open_count = place.pull_offset - place.consumer_offset
        behind, in_flight = behind + lag, in_flight + open_count
        owner = None if owners is None else owners.get(queue, "N/A")
        start = [
            queue.topic[:64],
            queue.broker_name[:32],
            queue.queue_id,
            place.broker_offset,
            place.consumer_offset,
        ]
        lines.append(f"{_progress_line(start, owner, [lag, open_count])} {_seconds(place.consumed_at_ms) or 'N/A'}")
        shown = {} if owner is None else {"client": owner}
        rows.append(
            {"topic": queue.topic, "broker": queue.broker_name, "queue": queue.queue_id}
            | place._asdict()
            | {"behind": lag, "in_flight": open_count, **shown}
        )
    lines += ["", f"Consume TPS: {found.rate:.2f}", f"Consume Diff Total: {behind}"]
    lines.append(f"Consume Inflight Total: {in_flight}")
    return Result(lines, rows, notices_of(found.silent))


def _progress_line(start: list[Any], owner: str | None, end: list[Any]) -> str:
    line = row(zip((-64, -32, -4, -20, -20), start, strict=True)) + "  "
    if owner is not None:
        line += cell(-20, owner) + " "
    return line + " ".join(cell(-20, value) for value in end)


def _seconds(at_ms: int) -> str:
    """Return a time to the second, in this machine's zone; empty for none."""
    return f"{datetime.fromtimestamp(at_ms / 1000):%Y-%m-%d %H:%M:%S}" if at_ms > 0 else ""


async def _owners(clients: ClusterClients, group: str, silent: Collection[str]) -> dict[MessageQueue, str]:
    """Return for each queue the host of the client that reads it; empty when no client tells."""
    try:
        found, _ = await find_connections(clients, group, silent=silent)
        infos = {
            client.client_id: await running_info(clients, group, client.client_id, silent=silent) for client in found
        }
    except OrbitError:
        return {}
    return {queue: name.partition("@")[0] for name, info in infos.items() for queue in info.info.queues}


async def _progress_of_all(clients: ClusterClients, silent: Mapping[str, str]) -> Result:
    names = [name for name in await clients.admin.topic_list() if name.startswith(RETRY_PREFIX)]
    permits = asyncio.Semaphore(_AT_A_TIME)

    async def look(group: str) -> dict[str, Any]:
        async with permits:
            shown: dict[str, Any] = {"group": group, "count": 0, "version": "OFFLINE", "type": "", "model": ""}
            try:
                progress = await find_progress(clients, group, silent=silent)
                behind = sum(place.broker_offset - place.consumer_offset for place in progress.queues.values())
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

    rows = await asyncio.gather(*(look(name.removeprefix(RETRY_PREFIX).partition("+")[0]) for name in names))

    def line(group: object, count: object, version: object, kind: object, model: object, *rest: object) -> str:
        return f"{row(((-64, group), (-6, count), (-24, version)))} {row(((-5, kind), (-14, model), (-7, rest[0])))}  {rest[1]}"

    lines = [line("#Group", "#Count", "#Version", "#Type", "#Model", "#TPS", "#Diff Total")]
    lines += [
        line(one["group"][:64], *list(one.values())[1:5], one["rate"], "?" if one["behind"] is None else one["behind"])
        for one in rows
    ]
    return Result(lines, rows, notices_of(silent))


async def consumer_connection(clients: ClusterClients, given: Given) -> Result:
    """Show the clients of a group and what they subscribe to."""
    group = given.text("consumerGroup")
    found, info = await find_connections(clients, group, given.text("brokerAddr"))

    def line(*cells: object) -> str:
        return " ".join(cell(width, value) for width, value in zip((-36, -22, -10, 0), cells, strict=True))

    lines = [line("#ClientId", "#ClientAddr", "#Language", "#Version")]
    lines += [line(one.client_id, one.address, one.language, version_name(one.version)) for one in found]
    lines += ["", "Below is subscription:", f"{cell(-20, '#Topic')} #SubExpression"]
    lines += [f"{cell(-20, one.topic)} {one.expression}" for one in info.subscriptions]
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
        f"{number:04d}  {cell(-32, one.client_id)} {cell(-22, one.address)} {cell(-8, one.language)} {version_name(one.version)}"
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
    widths = (-64, -64, -32, -4, -20, -20, -20, 0)
    titles = ("#Topic", "#Group", "#Broker Name", "#QID", "#Broker Offset", "#Consumer Offset", "#Diff", "#LastTime")
    lines, rows = [row(zip(widths, titles, strict=True))], []
    for group, topics in groups.items():
        for queues in topics:
            for queue, place in sorted(queues.items()):
                lag = place.broker_offset - place.consumer_offset
                if lag < level or place.consumed_at_ms <= 0:
                    continue
                offsets = (place.broker_offset, place.consumer_offset, lag, _seconds(place.consumed_at_ms))
                cells = (queue.topic[:64], group, queue.broker_name[:32], queue.queue_id, *offsets)
                lines.append(row(zip(widths, cells, strict=True)))
                rows.append(
                    {"topic": queue.topic, "group": group, "broker": queue.broker_name, "queue": queue.queue_id}
                )
                rows[-1] |= place._asdict() | {"behind": lag}
    return Result([*lines, "", f"Diff Total: {total}"], {"queues": rows, "behind": total})


class Told(NamedTuple):
    """What a client says of itself, the queues that it pops from, and what its program adds."""

    info: RunningInfo
    pop_queues: Mapping[MessageQueue, Mapping[str, Any]]
    user_info: Mapping[str, str] | None


async def running_info(
    clients: ClusterClients, group: str, client_id: str, *, with_stacks: bool = False, silent: Collection[str] = ()
) -> Told:
    """Ask a client of a group for everything that it says of itself.

    Args:
        silent: names of brokers that are not asked.

    Raises:
        ClientError: no broker knows the client, or it does not answer.
    """
    header = GetRunningInfo(consumer_group=group, client_id=client_id, jstack_enable=with_stacks)
    body = (await ask_first(clients, await group_route(clients, group), header, silent)).body

    def parse(document: dict[str, Any]) -> Told:
        pops = {parse_queue(dict(key)): found for key, found in (document.get("mqPopTable") or {}).items()}
        return Told(decode_running_info(body), pops, document.get("userConsumerInfo"))

    return parse_body("running info", body, parse)


async def consumer_status(clients: ClusterClients, given: Given) -> Result:
    """Show what one client of a group says of itself; without -i write it to a file for each of them, and check them.

    The files lie in a directory that is named by the time, in the one that the command runs in.
    """
    group, client_id, has_stacks = given.text("consumerGroup"), given.text("clientId"), "jstack" in given
    found, _ = await find_connections(clients, group, given.text("brokerAddr"))
    if client_id:
        told = await running_info(clients, group, client_id, with_stacks=has_stacks)
        return Result(_status_text(told), _status_document(client_id, told))
    directory = Path(str(time.time_ns() // 1_000_000))

    def line(*cells: object) -> str:
        return " ".join(cell(width, value) for width, value in zip((-10, -40, -20, 0), cells, strict=True))

    lines, problems = [line("#Index", "#ClientId", "#Version", "#ConsumerRunningInfoFile")], []
    infos: dict[str, Told] = {}
    for client in found:
        try:
            told = await running_info(clients, group, client.client_id, with_stacks=has_stacks)
        except OrbitError as error:
            problems.append(str(error))
            continue
        infos[client.client_id] = told
        path = directory / file_name(client.client_id)
        write_file(path, "\n".join(_status_text(told)).encode() + b"\n")
        lines.append(line(len(infos), client.client_id, version_name(client.version), path))
    if infos:
        lines += ["", "", *_findings(infos)]
    return Result(lines, [_status_document(name, told) for name, told in infos.items()], problems)


def _findings(infos: Mapping[str, Told]) -> list[str]:
    now_ms = time.time_ns() // 1_000_000
    first = infos[min(infos)].info
    subscriptions = {
        frozenset((one.topic, one.expression) for one in told.info.subscriptions) for told in infos.values()
    }
    if len(subscriptions) > 1 and _is_push(first) and now_ms - _started_at_ms(first) > _SETTLED_MS:
        return ["WARN: Different subscription in the same group of consumer!!!"]
    lines = ["Same subscription in the same group of consumer", "", "Rebalance OK"]
    for client_id, told in sorted(infos.items()):
        if _is_push(told.info):
            is_ordered = told.info.properties.get("PROP_CONSUMEORDERLY", "").lower() == "true"
            for queue, state in told.info.queues.items():
                name = f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}]"
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


def _status_text(told: Told) -> list[str]:
    """Return what a client says of itself as Java prints it (ConsumerRunningInfo.formatString)."""
    info, wide = told.info, (-64, -32, -4, -20)

    def queue_line(widths: tuple[int, ...], queue: MessageQueue, value: object) -> str:
        return row(zip(widths, (queue.topic, queue.broker_name, queue.queue_id, value), strict=True))

    def head(widths: tuple[int, ...], last: str) -> str:
        return row(zip(widths, ("#Topic", "#Broker Name", "#QID", last), strict=True))

    lines = ["#Consumer Properties#"]
    lines += [f"{cell(-40, key)}: {value}" for key, value in info.properties.items()]
    lines += ["", "", "#Consumer Subscription#"]
    for number, found in enumerate(info.subscriptions, 1):
        is_class = cell(-8, str(found.class_filter_mode).lower())
        lines.append(
            f"{number:03d} Topic: {cell(-40, found.topic)} ClassFilter: {is_class} SubExpression: {found.expression}"
        )
    lines += ["", "", "#Consumer Offset#", head(wide, "#Consumer Offset")]
    lines += [queue_line((-32, -32, -4, -20), queue, state.commit_offset) for queue, state in info.queues.items()]
    lines += ["", "", "#Consumer MQ Detail#", head(wide, "#ProcessQueueInfo")]
    lines += [queue_line((*wide[:3], 0), queue, _queue_text(state)) for queue, state in info.queues.items()]
    lines += ["", "", "#Consumer Pop Detail#", head((-32, *wide[1:]), "#ProcessQueueInfo")]
    for queue, pops in told.pop_queues.items():
        lines.append(queue_line((-32, *wide[1:3], 0), queue, _pop_text(pops)))
    widths = (14, 14, 14, 14, 18, 25)
    titles = (
        "#Pull RT",
        "#Pull TPS",
        "#Consume RT",
        "#ConsumeOK TPS",
        "#ConsumeFailed TPS",
        "#ConsumeFailedMsgsInHour",
    )

    def rates(width: int, topic: str, values: tuple[str, ...]) -> str:
        return f"{cell(width, topic)}  {' '.join(cell(at, value) for at, value in zip(widths, values, strict=True))}"

    lines += ["", "", "#Consumer RT&TPS#", rates(-64, "#Topic", titles)]
    for topic, told_of in info.statistics.items():
        numbers = (told_of.pull_ms, told_of.pull_rate, told_of.consume_ms, told_of.done_rate, told_of.failed_rate)
        lines.append(rates(-32, topic, (*(f"{number:.2f}" for number in numbers), str(told_of.failed_count))))
    if told.user_info is not None:
        lines += ["", "", "#User Consume Info#"]
        lines += [f"{cell(-40, key)}: {value}" for key, value in told.user_info.items()]
    if info.stacks is not None:
        lines += ["", "", "#Consumer jstack#", *info.stacks.splitlines()]
    return lines


def _queue_text(state: QueueInfo) -> str:
    """Return a queue's state as Java prints it (ProcessQueueInfo.toString)."""

    def at(time_ms: int) -> str:
        return f"{datetime.fromtimestamp(time_ms / 1000):%Y%m%d%H%M%S}{time_ms % 1000:03d}"

    return (
        f"ProcessQueueInfo [commitOffset={state.commit_offset}, cachedMsgMinOffset={state.cached_min_offset}, "
        f"cachedMsgMaxOffset={state.cached_max_offset}, cachedMsgCount={state.cached_count}, "
        f"cachedMsgSizeInMiB={state.cached_size_mib}, transactionMsgMinOffset={state.working_min_offset}, "
        f"transactionMsgMaxOffset={state.working_max_offset}, transactionMsgCount={state.working_count}, "
        f"locked={str(state.is_locked).lower()}, tryUnlockTimes={state.unlock_tries}, "
        f"lastLockTimestamp={at(state.locked_at_ms)}, droped={str(state.is_dropped).lower()}, "
        f"lastPullTimestamp={at(state.pulled_at_ms)}, lastConsumeTimestamp={at(state.consumed_at_ms)}]"
    )


def _pop_text(state: Mapping[str, Any]) -> str:
    dropped = str(bool(state.get("droped"))).lower()
    return (
        f"PopProcessQueueInfo [waitAckCount:{state.get('waitAckCount', 0)}, droped:{dropped}, "
        f"lastPopTimestamp:{state.get('lastPopTimestamp', 0)}]"
    )


def _status_document(client_id: str, told: Told) -> dict[str, Any]:
    info = told.info

    def of(queue: MessageQueue) -> dict[str, Any]:
        return {"topic": queue.topic, "broker": queue.broker_name, "queue": queue.queue_id}

    def values(found: object) -> dict[str, Any]:
        return {name: getattr(found, name) for name in type(found).__slots__}  # type: ignore[attr-defined]

    return {
        "client": client_id,
        "properties": dict(info.properties),
        "subscriptions": [{"topic": one.topic, "expression": one.expression} for one in info.subscriptions],
        "queues": [of(queue) | values(state) for queue, state in info.queues.items()],
        "pop_queues": [of(queue) | dict(state) for queue, state in told.pop_queues.items()],
        "statistics": {topic: values(found) for topic, found in info.statistics.items()},
        "user_info": dict(told.user_info or {}),
        "stacks": info.stacks,
    }


async def get_consumer_config(clients: ClusterClients, given: Given) -> Result:
    """Show a group's settings on every broker."""
    group = given.text("groupName")
    info = await clients.admin.cluster_info()
    clusters = {name: cluster for cluster, names in info.clusters.items() for name in names}
    lines, rows = [], []
    for name, data in sorted(info.brokers.items()):
        address = data.addresses.get(MASTER_ID) or data.addresses[min(data.addresses)]
        table = decode_group_table((await ask(clients, address, GetAllSubscriptionGroups())).body)
        config = table.groups.get(group)
        if config is None:
            continue
        bar = "=" * 29
        lines.append(f"{bar}{clusters.get(name)}:{name}{bar}")
        lines += [f"{cell(-40, key)}=  {value}" for key, value in _settings(config, none="")]
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


_CUSTOMIZED = [
    1_000,
    5_000,
    10_000,
    30_000,
    *range(60_000, 660_000, 60_000),
    1_200_000,
    1_800_000,
    3_600_000,
    7_200_000,
]
_CLASSES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "groupRetryPolicy": (
        "GroupRetryPolicy",
        {"type": "CUSTOMIZED", "exponentialRetryPolicy": None, "customizedRetryPolicy": None},
    ),
    "exponentialRetryPolicy": ("ExponentialRetryPolicy", {"initial": 5_000, "max": 7_200_000, "multiplier": 2}),
    "customizedRetryPolicy": ("CustomizedRetryPolicy", {"next": _CUSTOMIZED}),
    "subscriptionDataSet": (
        "SimpleSubscriptionData",
        {"topic": None, "expressionType": None, "expression": None, "version": 0},
    ),
}
"""Java's classes by the field that holds one, with the defaults of their own fields."""


def _java_text(name: str, value: Any) -> str:
    """Return a value as Java's toString does."""
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return "null"
    if isinstance(value, list):
        return f"[{', '.join(_java_text(name, part) for part in value)}]"
    if isinstance(value, dict):
        if name in _CLASSES:
            title, defaults = _CLASSES[name]
            texts = (f"{key}={_java_text(key, value.get(key, default))}" for key, default in defaults.items())
            return f"{title}{{{', '.join(texts)}}}"
        return f"{{{', '.join(f'{key}={_java_text(key, part)}' for key, part in value.items())}}}"
    return str(value)


async def update_sub_group(clients: ClusterClients, given: Given) -> Result:
    """Create a group, or change its settings, on one broker or on a cluster's masters: what is not said gets its default."""
    document: dict[str, Any] = {
        "groupName": check_name("group", given.text("groupName"), _GROUP_LENGTH_MAX),
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
        from orbitmq.admin.topics import parse_attribute_change

        parts = given.text("attributes").split(",")
        document["attributes"] = dict(parse_attribute_change(part) for part in parts if part)
    config = decode_group_config(json.dumps(document).encode())
    lines, rows = [], []
    for address in (await given_masters(clients, given)).values():
        await ask(clients, address, UpdateSubscriptionGroup(), encode_group_config(config))
        lines.append(f"create subscription group to {address} success.")
        rows.append({"group": config.group, "address": address})
    text = ", ".join(f"{name}={value}" for name, value in _settings(config, none="null"))
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
    lines, rows = [], []
    is_one = "brokerAddr" in given
    for address in (await given_masters(clients, given)).values():
        await ask(clients, address, header)
        where = "" if is_one else f" in cluster [{cluster}]"
        lines.append(f"delete subscription group [{group}] from broker [{address}]{where} success.")
        rows.append({"group": group, "address": address})
    if not is_one:
        await delete_topics(lambda topic: clients.admin.delete_topic(topic, cluster=cluster), group)
    return Result(lines, rows)


async def set_consume_mode(clients: ClusterClients, given: Given) -> Result:
    """Let a group pull a topic's messages, or pop them."""
    from orbitmq.wire.pop.assignments import POP, PULL, RequestMode, encode_request_mode

    mode = given.text("mode")
    if mode not in (PULL, POP):
        raise InvalidArgument("--mode", mode, f"{PULL} or {POP}")
    wanted = RequestMode(given.text("topicName"), given.text("groupName"), mode, given.number("popShareQueueNum", 0))
    lines, rows = [], []
    for address in (await given_masters(clients, given)).values():
        await ask(clients, address, SetRequestMode(), encode_request_mode(wanted))
        lines.append(f"set consume mode to {address} success.")
        rows.append({**wanted._asdict(), "address": address})
    lines.append(
        f"topic[{wanted.topic}] group[{wanted.group}] consume mode[{mode}] popShareQueueNum[{wanted.share_queue_count}]"
    )
    return Result(lines, rows)
