"""`orbitmq cluster`: the brokers of all clusters."""

from __future__ import annotations

from typing import Any

from orbitmq.cli.access import Access
from orbitmq.cli.terminal.options import (
    FormatOption,
)
from orbitmq.cli.terminal.output import Format, Row, say, show_rows

COLUMNS = (
    "cluster", "broker", "id", "role", "behind", "in_sync", "epoch", "address", "version", "put_per_s", "get_per_s",
    "messages_today",
)  # fmt: skip


async def cluster(
    access: Access,
    output: FormatOption = Format.TABLE,
) -> None:
    """Show every broker of every cluster."""
    rows = await _rows(access)
    show_rows(rows, COLUMNS, output)
    for row in rows:
        for said in ("problem", "warnings"):
            if row.get(said):
                say(f"{row['broker']}: {row[said]}")


async def _rows(access: Access) -> list[Row]:
    import asyncio

    rows: list[Row] = []
    async with access.admin() as admin:
        info = await admin.cluster_info()
        for cluster_name, broker_names in sorted(info.clusters.items()):
            for data in (info.brokers[name] for name in sorted(broker_names) if name in info.brokers):
                members = sorted(data.addresses.items())
                infos = await asyncio.gather(*(_runtime(admin, address) for _, address in members))
                leading = (told for (broker_id, _), told in zip(members, infos, strict=True) if not broker_id)
                master: dict[str, str] = next(leading, {})
                for (broker_id, address), told in zip(members, infos, strict=True):
                    member = {"cluster": cluster_name, "broker": data.broker_name, "id": broker_id, "address": address}
                    rows.append(member | _replication(broker_id, told, master) | _figures(told))
    return rows


async def _runtime(admin: Any, address: str) -> dict[str, str]:
    """Return what the broker says of itself; of one that does not answer, its problem."""
    from orbitmq.errors import ClientError

    try:
        values: dict[str, str] = await admin.broker_runtime_info(address)
    except ClientError as error:
        return {"problem": str(error)}
    return values


def _replication(broker_id: int, info: dict[str, str], master: dict[str, str]) -> dict[str, Any]:
    """Return whether a broker is a copy, how many bytes its log is behind its master's, and what it is in a controlled group."""
    found: dict[str, Any] = {"role": "slave" if broker_id else "master"}
    if broker_id:
        end, own = _number(master.get("commitLogMaxOffset")), _number(info.get("commitLogMaxOffset"))
        found["behind"] = None if end is None or own is None else max(0, end - own)
    if "syncStateSet" in master:
        found["in_sync"] = str(broker_id) in master["syncStateSet"].split()
    return found | {"epoch": _number(info.get("masterEpoch"))}


def _figures(values: dict[str, str]) -> dict[str, Any]:
    if "problem" in values:
        return {"problem": values["problem"]}
    return {
        "version": values.get("brokerVersionDesc"),
        "put_per_s": _first(values.get("putTps")),
        "get_per_s": _first(values.get("getTransferredTps")),
        "messages_today": _difference(values, "msgPutTotalTodayNow", "msgPutTotalTodayMorning"),
        "warnings": values.get("warnings"),
    }


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


def _first(rates: str | None) -> float | None:
    """Java gives rates over ten seconds, one minute and ten minutes in one text."""
    try:
        return round(float((rates or "").split()[0]), 1)
    except (IndexError, ValueError):
        return None


def _difference(values: dict[str, str], later: str, earlier: str) -> int | None:
    try:
        return int(values[later]) - int(values[earlier])
    except (KeyError, ValueError):
        return None
