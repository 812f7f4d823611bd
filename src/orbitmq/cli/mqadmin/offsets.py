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
from orbitmq.cli.mqadmin.result import Result, table
from orbitmq.cli.mqadmin.targets import ask, route_topic
from orbitmq.codes import ResponseCode
from orbitmq.errors import InvalidArgument, RemoteRefused
from orbitmq.model.route import MessageQueue
from orbitmq.wire.bodies.offsets import decode_offset_table
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import (
    OffsetResponse,
    ResetGroupOffset,
    SearchOffset,
    UpdateConsumerOffset,
)

_BEHIND_ALL_MS = -1
"""The time that stands for the end of a queue."""
_TIME_FORMAT = "%Y-%m-%d#%H:%M:%S:%f"
_ROLLED_BACK = "#brokerName|#queueId|#brokerOffset|#consumerOffset|#timestampOffset|"


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
    said = (
        f"[{group}], topic[{topic}], force[{str(given.flag('force', True)).lower()}], timestamp(string)[{text}], "
        f"timestamp(long)[{at_ms}]"
    )
    try:
        offsets = await _reset(clients, given, at_ms)
    except RemoteRefused as refusal:
        if refusal.code != ResponseCode.CONSUMER_NOT_ONLINE:
            raise
        found = await _commit(clients, given, at_ms)
        return _rolled_back([f"reset consumer offset by specified consumerGroup{said}"], found, "#resetOffset")
    return _offset_table([f"start reset consumer offset by specified, group{said}"], offsets)


async def find_offset(clients: ClusterClients, address: str, queue: MessageQueue, at_ms: int) -> int:
    """Return where a queue was at a time."""
    header = SearchOffset(topic=queue.topic, queue_id=queue.queue_id, timestamp_ms=at_ms)
    return decode_header(OffsetResponse, (await ask(clients, address, header)).ext_fields).offset


async def _reset_queue(clients: ClusterClients, given: Given, at_ms: int) -> Result:
    address, queue_id = given.text("broker"), given.number("queue", 0)
    group, topic, text = given.text("group"), given.text("topic"), given.text("timestamp")
    if "offset" in given:
        offset = given.number("offset", 0)
    else:
        offset = await find_offset(clients, address, MessageQueue(topic, "", queue_id), at_ms)
    header = ResetGroupOffset(group=group, topic=topic, timestamp_ms=0, queue_id=queue_id, offset=offset)
    await ask(clients, address, header)
    lines = [
        f"start reset consumer offset by specified, group[{group}], topic[{topic}], queueId[{queue_id}], "
        f"broker[{address}], timestamp(string)[{text}], timestamp(long)[{at_ms}]",
        f"reset consumer offset to {offset}",
    ]
    return Result(lines, [{"address": address, "queue": queue_id, "offset": offset}])


async def _reset(clients: ClusterClients, given: Given, at_ms: int) -> dict[MessageQueue, int]:
    """Let every broker of a topic set the group's offsets and tell its clients; return the offsets."""
    group, topic, is_force = given.text("group"), given.text("topic"), given.flag("force", True)
    header = ResetGroupOffset(group=group, topic=topic, timestamp_ms=at_ms, is_force=is_force, offset=-1)
    found: dict[MessageQueue, int] = {}
    route = await clients.admin.topic_route(route_topic(topic, given.text("cluster")))
    for address in route.addresses.values():
        body = (await ask(clients, address, header)).body
        found |= decode_offset_table(body) if body else {}
    return found


async def _commit(clients: ClusterClients, given: Given, at_ms: int) -> list[dict[str, Any]]:
    """Commit the offsets of a group that is not online, queue by queue: for brokers that set none themselves."""
    group, topic, is_force = given.text("group"), given.text("topic"), given.flag("force", True)
    rows = []
    route = await clients.admin.topic_route(route_topic(topic, given.text("cluster")))
    for name, address in route.addresses.items():
        broker = await clients.admin.broker(address)
        bounds, places = await broker.topic_stats(topic), await broker.progress(group, topic)
        for queue, stats in sorted(bounds.items()):
            place = places.get(queue)
            before = stats.min_offset if place is None else place.consumer_offset
            offset = stats.max_offset
            if at_ms != _BEHIND_ALL_MS:
                offset = await find_offset(clients, address, queue, at_ms)
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
    return Result(
        [*lines, *table("  ".join(["%-20s"] * 6), _ROLLED_BACK + title, (row.values() for row in found))], found
    )


def _offset_table(lines: list[str], offsets: dict[MessageQueue, int]) -> Result:
    rows = [
        {"broker": queue.broker_name, "queue": queue.queue_id, "offset": offset}
        for queue, offset in sorted(offsets.items())
    ]
    cells = (row.values() for row in rows)
    return Result([*lines, *table("%-40.32s  %-40s  %-40s", "#brokerName|#queueId|#offset", cells)], rows)


async def skip_accumulated_message(clients: ClusterClients, given: Given) -> Result:
    """Let a group go on in a topic behind all messages that are there."""
    try:
        return _offset_table([], await _reset(clients, given, _BEHIND_ALL_MS))
    except RemoteRefused as refusal:
        if refusal.code != ResponseCode.CONSUMER_NOT_ONLINE:
            raise
    return _rolled_back([], await _commit(clients, given, _BEHIND_ALL_MS), "#rollbackOffset")


async def clone_group_offset(clients: ClusterClients, given: Given) -> Result:
    """Let a group that is offline go on in a topic where another one is."""
    source, target, topic = given.text("srcGroup"), given.text("destGroup"), given.text("topic")
    if "offline" in given:
        raise InvalidArgument("--offline", given.text("offline"), "to be left out: it has no effect in Java's mqadmin")
    changes = await clients.admin.clone_group(source, target, topic)
    rows = [
        {"broker": at.queue.broker_name, "queue": at.queue.queue_id, "before": at.before, "after": at.after}
        for at in changes
    ]
    return Result([f"clone group offset success. srcGroup[{source}], destGroup=[{target}], topic[{topic}]"], rows)
