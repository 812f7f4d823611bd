"""Offsets of groups: set by a time, behind all messages, or as another group's.

Where ours differs from Java: `resetOffsetByTime -b -q` sets the offset 0 as well, which Java leaves without a word, and -b
without -q is refused, which Java takes for all queues of all brokers. `cloneGroupOffset` gives the offsets of its topic alone,
where Java gives those of everything that the source reads, its retries included.

Source: Java org.apache.rocketmq.tools.command.offset of 5.3.3.
"""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any

from orbitmq.admin.cluster_clients import ClusterClients
from orbitmq.cli.mqadmin.parsing import Given
from orbitmq.cli.mqadmin.result import Result, row
from orbitmq.cli.mqadmin.targets import addresses_of, ask, route_topic
from orbitmq.codes import ResponseCode
from orbitmq.errors import InvalidArgument, RemoteRefused
from orbitmq.model.route import MessageQueue
from orbitmq.wire.bodies.offsets import decode_offset_table
from orbitmq.wire.bodies.topics import decode_consume_stats, decode_topic_stats
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import (
    GetConsumeStats,
    GetTopicStats,
    OffsetResponse,
    ResetGroupOffset,
    SearchOffset,
    UpdateConsumerOffset,
)

_BEHIND_ALL_MS = -1
"""The time that stands for the end of a queue."""
_TIME_FORMAT = "%Y-%m-%d#%H:%M:%S:%f"
_ROLLED_BACK = ("#brokerName", "#queueId", "#brokerOffset", "#consumerOffset", "#timestampOffset")


def time_ms(name: str, text: str) -> int:
    """Return a time that is given in milliseconds or as 2026-01-31#23:59:59:999, in this machine's zone.

    Raises:
        InvalidArgument: it is neither.
    """
    if text.removeprefix("-").isdecimal() and text.isascii():
        return int(text)
    try:
        return int(datetime.strptime(f"{text}000", _TIME_FORMAT).astimezone().timestamp() * 1000)
    except ValueError:
        raise InvalidArgument(
            f"--{name}", text, "milliseconds since 1970, or a time as 2026-01-31#23:59:59:999"
        ) from None


async def reset_offset_by_time(clients: ClusterClients, given: Given) -> Result:
    """Let a group go on in a topic at a time; with -b and -q in one queue, with -o at an offset of it."""
    group, topic, text = given.text("group"), given.text("topic"), given.text("timestamp")
    at_ms = time.time_ns() // 1_000_000 if text == "now" else time_ms("timestamp", text)
    is_one = [name for name in ("broker", "queue") if name in given]
    if len(is_one) == 1 or ("offset" in given and not is_one):
        raise InvalidArgument(
            f"--{'queue' if is_one == ['broker'] else 'broker'}",
            "",
            "a value: one queue is named by --broker and --queue",
        )
    if is_one:
        return await _reset_queue(clients, given, at_ms)
    is_force = given.flag("force", True)
    try:
        offsets = await _reset(clients, group, topic, at_ms, is_force=is_force, cluster=given.text("cluster"))
    except RemoteRefused as refusal:
        if refusal.code != ResponseCode.CONSUMER_NOT_ONLINE:
            raise
        found = await _commit(clients, group, topic, at_ms, is_force=is_force, cluster=given.text("cluster"))
        first = _title("reset consumer offset by specified consumerGroup", group, topic, is_force, text, at_ms)
        return _rolled_back([first], found, "#resetOffset")
    first = _title("start reset consumer offset by specified, group", group, topic, is_force, text, at_ms)
    return _offset_table([first], offsets)


def _title(start: str, group: str, topic: str, is_force: bool, text: str, at_ms: int) -> str:
    force = str(is_force).lower()
    return f"{start}[{group}], topic[{topic}], force[{force}], timestamp(string)[{text}], timestamp(long)[{at_ms}]"


async def _reset_queue(clients: ClusterClients, given: Given, at_ms: int) -> Result:
    address, queue_id = given.text("broker"), given.number("queue", 0)
    group, topic, text = given.text("group"), given.text("topic"), given.text("timestamp")
    if "offset" in given:
        offset = given.number("offset", 0)
    else:
        answer = await ask(clients, address, SearchOffset(topic=topic, queue_id=queue_id, timestamp_ms=at_ms))
        offset = decode_header(OffsetResponse, answer.ext_fields).offset
    header = ResetGroupOffset(group=group, topic=topic, timestamp_ms=0, queue_id=queue_id, offset=offset)
    await ask(clients, address, header)
    lines = [
        f"start reset consumer offset by specified, group[{group}], topic[{topic}], queueId[{queue_id}], "
        f"broker[{address}], timestamp(string)[{text}], timestamp(long)[{at_ms}]",
        f"reset consumer offset to {offset}",
    ]
    return Result(lines, [{"address": address, "queue": queue_id, "offset": offset}])


async def _reset(
    clients: ClusterClients, group: str, topic: str, at_ms: int, *, is_force: bool, cluster: str
) -> dict[MessageQueue, int]:
    """Let every broker of a topic set the group's offsets and tell its clients; return the offsets."""
    header = ResetGroupOffset(group=group, topic=topic, timestamp_ms=at_ms, is_force=is_force, offset=-1)
    found: dict[MessageQueue, int] = {}
    route = await clients.admin.topic_route(route_topic(topic, cluster))
    for address in addresses_of(route).values():
        body = (await ask(clients, address, header)).body
        found |= decode_offset_table(body) if body else {}
    return found


async def _commit(
    clients: ClusterClients, group: str, topic: str, at_ms: int, *, is_force: bool, cluster: str
) -> list[dict[str, Any]]:
    """Commit the offsets of a group that is not online, queue by queue: for brokers that set none themselves."""
    rows = []
    route = await clients.admin.topic_route(route_topic(topic, cluster))
    for name, address in addresses_of(route).items():
        bounds = decode_topic_stats((await ask(clients, address, GetTopicStats(topic=topic))).body)
        header = GetConsumeStats(consumer_group=group, topic=topic)
        places = decode_consume_stats((await ask(clients, address, header)).body)
        for queue, stats in sorted(bounds.items()):
            place = places.get(queue)
            before = stats.min_offset if place is None else place.consumer_offset
            offset = stats.max_offset
            if at_ms != _BEHIND_ALL_MS:
                search = SearchOffset(topic=topic, queue_id=queue.queue_id, timestamp_ms=at_ms)
                offset = decode_header(OffsetResponse, (await ask(clients, address, search)).ext_fields).offset
            after = offset if is_force or offset <= before else before
            if after != before:
                update = UpdateConsumerOffset(
                    consumer_group=group, topic=topic, queue_id=queue.queue_id, commit_offset=after
                )
                await ask(clients, address, update)
            rows.append(
                {"broker": name, "queue": queue.queue_id, "broker_offset": stats.max_offset, "before": before}
                | {"found": offset, "after": after}
            )
    return rows


def _rolled_back(lines: list[str], found: list[dict[str, Any]], title: str) -> Result:
    lines = [*lines, row((-20, name) for name in (*_ROLLED_BACK, title))]
    lines += [row((-20, value) for value in entry.values()) for entry in found]
    return Result(lines, found)


def _offset_table(lines: list[str], offsets: dict[MessageQueue, int]) -> Result:
    lines = [*lines, row((-40, name) for name in ("#brokerName", "#queueId", "#offset"))]
    rows = []
    for queue, offset in sorted(offsets.items()):
        lines.append(row((-40, value) for value in (queue.broker_name[:32], queue.queue_id, offset)))
        rows.append({"broker": queue.broker_name, "queue": queue.queue_id, "offset": offset})
    return Result(lines, rows)


async def skip_accumulated_message(clients: ClusterClients, given: Given) -> Result:
    """Let a group go on in a topic behind all messages that are there."""
    group, topic, is_force = given.text("group"), given.text("topic"), given.flag("force", True)
    cluster = given.text("cluster")
    try:
        return _offset_table(
            [], await _reset(clients, group, topic, _BEHIND_ALL_MS, is_force=is_force, cluster=cluster)
        )
    except RemoteRefused as refusal:
        if refusal.code != ResponseCode.CONSUMER_NOT_ONLINE:
            raise
    found = await _commit(clients, group, topic, _BEHIND_ALL_MS, is_force=is_force, cluster=cluster)
    return _rolled_back([], found, "#rollbackOffset")


async def clone_group_offset(clients: ClusterClients, given: Given) -> Result:
    """Let a group that is offline go on in a topic where another one is."""
    source, target, topic = given.text("srcGroup"), given.text("destGroup"), given.text("topic")
    if "offline" in given:
        raise InvalidArgument("--offline", given.text("offline"), "to be left out: it has no effect in Java's mqadmin")
    changes = await clients.admin.clone_group(source, target, topic)
    rows = [
        {
            "broker": change.queue.broker_name,
            "queue": change.queue.queue_id,
            "before": change.before,
            "after": change.after,
        }
        for change in changes
    ]
    return Result(
        [f"clone group offset success. srcGroup[{source}], destGroup=[{target}], topic[{topic}]"],
        rows,
    )
