"""All brokers of a cluster with their roles, rates and disks, as each one tells them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from orbitmq.admin.client import AdminClient
from orbitmq.errors import ClientError
from orbitmq.model.route import MASTER_ID


class Brokers(NamedTuple):
    """The brokers that a NameServer knows.

    Args:
        rows: one for each broker; those that do not answer, or warn, come first.
        without_master: the names of brokers of which only slaves are registered, sorted.
    """

    rows: list[dict[str, Any]]
    without_master: list[str]


async def find_brokers(admin: AdminClient) -> Brokers:
    """Ask every broker of every cluster; one that does not answer has a row that says why.

    Raises:
        ClientError: no NameServer answers.
    """
    info = await admin.cluster_info()
    found = [
        (cluster, info.brokers[name], broker_id, address)
        for cluster, names in sorted(info.clusters.items())
        for name in sorted(names)
        if name in info.brokers
        for broker_id, address in sorted(info.brokers[name].addresses.items())
    ]
    answers = await asyncio.gather(*(_runtime_info(admin, address) for *_, address in found))
    masters = {
        broker.broker_name: told
        for (_, broker, broker_id, _), told in zip(found, answers, strict=True)
        if broker_id == MASTER_ID
    }
    rows = [
        {
            "cluster": cluster,
            "broker": broker.broker_name,
            "id": broker_id,
            "address": address,
            **metrics_of(told),
            **replication_of(broker_id, told, masters.get(broker.broker_name, {})),
        }
        for (cluster, broker, broker_id, address), told in zip(found, answers, strict=True)
    ]
    rows.sort(key=lambda row: (not row["problem"], not row["warnings"]))
    return Brokers(rows, sorted(name for name, broker in info.brokers.items() if MASTER_ID not in broker.addresses))


async def _runtime_info(admin: AdminClient, address: str) -> dict[str, str]:
    try:
        return await admin.broker_runtime_info(address)
    except ClientError as error:
        return {"problem": str(error)}


def metrics_of(told: Mapping[str, str]) -> dict[str, Any]:
    """Return rates, counts and the disk's use out of a broker's run-time values; None for what it does not tell."""
    return {
        "version": told.get("brokerVersionDesc"),
        "in_per_s": _first(told.get("putTps")),
        "out_per_s": _first(told.get("getTransferredTps", told.get("getTransferedTps"))),
        "messages_today": _difference(told, "msgPutTotalTodayNow", "msgPutTotalTodayMorning"),
        "disk_used": _first(told.get("commitLogDiskRatio")),
        "earliest_ms": _count(told.get("earliestMessageTimeStamp")),
        "epoch": _count(told.get("masterEpoch")),
        "controllers": told.get("controllers"),
        "warnings": told.get("warnings"),
        "problem": told.get("problem"),
    }


def replication_of(broker_id: int, told: Mapping[str, str], master: Mapping[str, str]) -> dict[str, Any]:
    """Return a broker's role, how many bytes of its master's log it lacks, and whether it is in its group's sync set.

    Args:
        broker_id: 0 is the master.
        told: its run-time values.
        master: those of its master; in a group with controllers they name the sync set.
    """
    end, members = "commitLogMaxOffset", master.get("syncStateSet")
    return {
        "role": "slave" if broker_id else "master",
        "behind": bytes_behind(master.get(end), told.get(end)) if broker_id else None,
        "in_sync": None if members is None else str(broker_id) in members.split(),
    }


def bytes_behind(master: str | None, own: str | None) -> int | None:
    """Return how many bytes of its master's log a slave lacks; None where one of them does not tell its end."""
    end, own_end = _count(master), _count(own)
    return None if end is None or own_end is None else max(0, end - own_end)


def _count(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


def _first(text: str | None) -> float | None:
    """Java gives rates over ten seconds, one minute and ten minutes in one text."""
    try:
        return float((text or "").split()[0])
    except (IndexError, ValueError):
        return None


def _difference(told: Mapping[str, str], later: str, earlier: str) -> int | None:
    try:
        return int(told[later]) - int(told[earlier])
    except (KeyError, ValueError):
        return None


def controllers_of(told: Iterable[str | None]) -> list[str]:
    """Return the addresses of controllers that brokers name in their run-time values (`controllers`), sorted."""
    return sorted({address for text in told if text for address in text.split(";")})
