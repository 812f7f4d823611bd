"""Reading messages for pages: the latest of a topic, one at its queue offset, and those to come.

Nothing is committed, and readers join no other consumer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from orbitmq.admin.cluster_clients import ClusterClients
from orbitmq.admin.each_master import notices_of
from orbitmq.admin.message_ranges import known_offsets, ranges_from
from orbitmq.model.message import StoredMessage

_POLL_MS = 500
_WAITS_MAX = 6
BODY_SIZE_SHOWN = 200
BODY_BYTES_SHOWN = 4 * BODY_SIZE_SHOWN
TAIL_EVERY_S = 0.5
TAIL_COUNT_MAX = 20
"""Messages that a live tail shows each time; how many more there were is said."""
TAIL_READ_MAX = 5_000
"""Messages that it reads each time: where more come, it goes on with the newest."""


def summary(message: StoredMessage) -> dict[str, Any]:
    """Return what a table shows of a message."""
    text = message.body[:BODY_BYTES_SHOWN].decode("utf-8", "replace")
    return {
        "topic": message.topic,
        "broker": message.broker_name,
        "queue_id": message.queue_id,
        "queue_offset": message.queue_offset,
        "message_id": message.message_id,
        "keys": list(message.keys),
        "tag": message.tag,
        "stored_at_ms": message.stored_at_ms,
        "size": message.store_size,
        "body": text[:BODY_SIZE_SHOWN] + ("…" if len(text) > BODY_SIZE_SHOWN else ""),
    }


async def latest(clients: ClusterClients, topic: str, count: int) -> tuple[list[dict[str, Any]], Mapping[str, str]]:
    """Return the latest messages of a topic's queues, the newest first, and what is wrong with brokers that do not answer.

    Raises:
        ClientError: the topic has no route, or none of its brokers answers.
    """
    async with clients.short_reader(BODY_BYTES_SHOWN) as reader:
        filled, silent = await ranges_from(reader, await reader.queues(topic))
        if not filled:
            return [], silent
        each = -(-count // len(filled))
        reader.assign(list(filled))
        for queue, found in filled.items():
            reader.seek(queue, max(found.begin, found.end - each))
        expected = sum(min(each, found.end - found.begin) for found in filled.values())
        messages: list[StoredMessage] = []
        for _ in range(_WAITS_MAX):
            messages += await reader.poll(_POLL_MS, expected)
            if len(messages) >= expected:
                break
    messages.sort(key=lambda message: message.stored_at_ms, reverse=True)
    return [summary(message) for message in messages[:count]], silent


async def tail(
    clients: ClusterClients, topic: str, *, tag: str = "", sql: str = ""
) -> AsyncGenerator[dict[str, Any], None]:
    """Yield twice a second what comes to a topic from now on: some messages, how many more were left out, and whether others were skipped.

    Queues whose broker does not answer at the beginning are left out; `missing` says so.

    Args:
        tag: only messages with one of these tags, as `A || B`.
        sql: instead of tags, an SQL92 expression on properties.

    Raises:
        OrbitError: the topic has no route, or a broker takes no such expression.
    """
    loop = asyncio.get_running_loop()
    options: dict[str, Any] = {"sql": sql} if sql else {"tag": tag or "*"}
    async with clients.short_reader(BODY_BYTES_SHOWN, **options) as reader:
        ranges, silent = await known_offsets(reader, await reader.queues(topic))
        queues = list(ranges)
        reader.assign(queues)
        for queue, found in ranges.items():
            reader.seek(queue, found.end)
        while True:
            due_s = loop.time() + TAIL_EVERY_S
            messages = await reader.poll(_POLL_MS, TAIL_READ_MAX)
            shown, is_behind = messages[-TAIL_COUNT_MAX:], len(messages) >= TAIL_READ_MAX
            if is_behind:
                for queue in queues:
                    await reader.seek_to_end(queue)
            yield {
                "messages": [summary(message) for message in shown],
                "left_out": len(messages) - len(shown),
                "is_behind": is_behind,
                "missing": notices_of(silent),
            }
            await asyncio.sleep(due_s - loop.time())
