"""The first page: all brokers with their roles, rates and disks."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.requests import Request

from orbitmq.admin import AdminClient
from orbitmq.dashboard.answers import Page
from orbitmq.dashboard.clients import ClusterClients
from orbitmq.errors import OrbitError


async def overview(_request: Request, clients: ClusterClients) -> Page:
    """Show every broker of every cluster."""
    admin = clients.admin
    info = await admin.cluster_info()
    found = [
        (cluster, info.brokers[name], broker_id, address)
        for cluster, names in sorted(info.clusters.items())
        for name in sorted(names)
        if name in info.brokers
        for broker_id, address in sorted(info.brokers[name].addresses.items())
    ]
    infos = await asyncio.gather(*(_runtime(admin, address) for *_, address in found))
    ends = {
        broker.broker_name: told.get("commitLogMaxOffset")
        for (_, broker, broker_id, _), told in zip(found, infos, strict=True)
        if broker_id == 0
    }
    brokers = [
        {
            "cluster": cluster,
            "broker": broker.broker_name,
            "id": broker_id,
            "role": "slave" if broker_id else "master",
            "address": address,
            **_figures(told),
            "behind": _behind(ends.get(broker.broker_name), told.get("commitLogMaxOffset")) if broker_id else None,
        }
        for (cluster, broker, broker_id, address), told in zip(found, infos, strict=True)
    ]
    # What is wrong comes first.
    brokers.sort(key=lambda broker: (not broker["problem"], not broker["warnings"]))
    without_master = sorted(name for name, broker in info.brokers.items() if 0 not in broker.addresses)
    return Page("overview.html", "Overview", {"brokers": brokers, "without_master": without_master})


async def _runtime(admin: AdminClient, address: str) -> dict[str, str]:
    try:
        return await admin.broker_runtime_info(address)
    except OrbitError as error:
        return {"problem": str(error)}


def _figures(told: dict[str, str]) -> dict[str, Any]:
    return {
        "version": told.get("brokerVersionDesc"),
        "in_per_s": _first(told.get("putTps")),
        "out_per_s": _first(told.get("getTransferredTps", told.get("getTransferedTps"))),
        "messages_today": _difference(told, "msgPutTotalTodayNow", "msgPutTotalTodayMorning"),
        "disk_used": _first(told.get("commitLogDiskRatio")),
        "earliest_ms": int(told["earliestMessageTimeStamp"])
        if told.get("earliestMessageTimeStamp", "").isdecimal()
        else None,
        "epoch": told.get("masterEpoch"),
        "warnings": told.get("warnings"),
        "problem": told.get("problem"),
    }


def _first(text: str | None) -> float | None:
    """Java gives rates over ten seconds, one minute and ten minutes in one text."""
    try:
        return float((text or "").split()[0])
    except (IndexError, ValueError):
        return None


def _difference(told: dict[str, str], later: str, earlier: str) -> int | None:
    try:
        return int(told[later]) - int(told[earlier])
    except (KeyError, ValueError):
        return None


def _behind(master: str | None, own: str | None) -> int | None:
    return max(0, int(master) - int(own)) if (master or "").isdecimal() and (own or "").isdecimal() else None  # type: ignore[arg-type]
