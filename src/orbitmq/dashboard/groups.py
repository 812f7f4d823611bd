"""The consumer groups: a list with members and lag, and one group with its queues and clients."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.requests import Request

from orbitmq.admin import AdminClient, GroupStatus
from orbitmq.dashboard.answers import Page, paged
from orbitmq.errors import ClientError

_AT_A_TIME = 16


async def groups(request: Request, admin: AdminClient) -> Page:
    """List groups by a part of their names, with their lag."""
    wanted = request.query_params.get("q", "")
    names = [name for name in await admin.group_names() if wanted.lower() in name.lower()]
    part, page = paged(request, names)
    shown = await admin.groups(names=part)
    places = asyncio.Semaphore(_AT_A_TIME)

    async def row(status: GroupStatus) -> dict[str, Any]:
        async with places:
            return {
                "group": status.group,
                "members": len(status.clients),
                "topics": sorted(status.subscriptions),
                **await _lag(admin, status.group),
            }

    rows = await asyncio.gather(*map(row, shown))
    return Page("groups.html", "Groups", {"groups": rows, "page": page, "q": wanted})


async def _lag(admin: AdminClient, group: str) -> dict[str, Any]:
    try:
        queues = await admin.group_lag(group)
    except ClientError as error:
        return {"lag": None, "consumed_at_ms": None, "problem": str(error)}
    consumed_at_ms = max((queue.consumed_at_ms for queue in queues.values()), default=0)
    return {"lag": sum(queue.lag for queue in queues.values()), "consumed_at_ms": consumed_at_ms, "problem": None}


async def group(request: Request, admin: AdminClient) -> Page:
    """Show one group: its members, subscriptions, and how far it is in each queue."""
    name = request.path_params["group"]
    status = await admin.group_status(name)
    problem, lags = None, {}
    try:
        lags = await admin.group_lag(name)
    except ClientError as error:
        problem = str(error)
    queues = [
        {
            "topic": queue.topic,
            "broker": queue.broker_name,
            "queue_id": queue.queue_id,
            "lag": found.lag,
            **found._asdict(),
        }
        for queue, found in sorted(lags.items())
    ]
    values = {
        "group": name,
        "members": [
            {
                "client_id": client.client_id,
                "address": client.address,
                "language": client.language,
                "version": client.version,
            }
            for client in status.clients
        ],
        "subscriptions": dict(sorted(status.subscriptions.items())),
        "message_model": None if status.message_model is None else str(status.message_model),
        "queues": queues,
        "lag": sum(queue["lag"] for queue in queues),
        "problem": problem,
    }
    return Page("group.html", name, values)
