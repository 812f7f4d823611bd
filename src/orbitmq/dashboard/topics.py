"""The topics: a list that can be searched, and one topic with its queues and its latest messages."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from starlette.requests import Request

from orbitmq.admin import AdminClient
from orbitmq.dashboard.answers import Page, paged
from orbitmq.dashboard.reading import latest
from orbitmq.errors import ClientError
from orbitmq.model.topic import TOPIC_KINDS, kind_of

_LATEST_COUNT = 20
_AT_A_TIME = 16


async def topics(request: Request, admin: AdminClient) -> Page:
    """List topics by a part of their names and their kind, with how many messages each has."""
    wanted, kind = request.query_params.get("q", ""), request.query_params.get("kind", "user")
    names = [
        topic
        for topic in await admin.topic_list()
        if wanted.lower() in topic.lower() and (kind == "all" or kind_of(topic) == kind)
    ]
    shown, page = paged(request, names)
    places = asyncio.Semaphore(_AT_A_TIME)

    async def row(topic: str) -> dict[str, Any]:
        async with places:
            return {"topic": topic, "kind": kind_of(topic), **await _sums(admin, topic)}

    rows = await asyncio.gather(*map(row, shown))
    return Page(
        "topics.html",
        "Topics",
        {"topics": rows, "page": page, "q": wanted, "kind": kind, "kinds": ("all", *TOPIC_KINDS)},
    )


async def _sums(admin: AdminClient, topic: str) -> dict[str, Any]:
    try:
        stats = await admin.topic_stats(topic)
    except ClientError as error:
        return {"queues": None, "brokers": None, "messages": None, "updated_at_ms": None, "problem": str(error)}
    return {
        "queues": len(stats),
        "brokers": len({queue.broker_name for queue in stats}),
        "messages": sum(found.max_offset - found.min_offset for found in stats.values()),
        "updated_at_ms": max((found.updated_at_ms for found in stats.values()), default=0),
        "problem": None,
    }


async def topic(request: Request, admin: AdminClient) -> Page:
    """Show one topic: its queues, where they begin and end, and the latest messages."""
    name = request.path_params["topic"]
    stats = await admin.topic_stats(name)
    queues = [
        {
            "broker": queue.broker_name,
            "queue_id": queue.queue_id,
            **found._asdict(),
            "messages": found.max_offset - found.min_offset,
        }
        for queue, found in stats.items()
    ]
    try:
        configs = await admin.topic_configs(name)
    except ClientError:
        configs = {}
    settings = [
        {
            "broker": broker,
            "read": config.read_queue_count,
            "write": config.write_queue_count,
            "perm": config.perm,
            "order": config.order,
        }
        for broker, config in sorted(configs.items())
    ]
    messages, problem = await _latest(request, name)
    values = {
        "topic": name,
        "kind": kind_of(name),
        "queues": queues,
        "settings": settings,
        "messages": messages,
        "problem": problem,
    }
    return Page("topic.html", name, values)


async def _latest(request: Request, name: str) -> tuple[Sequence[dict[str, Any]], str | None]:
    try:
        return await latest(request.app.state.readers, name, _LATEST_COUNT), None
    except ClientError as error:
        return (), str(error)
