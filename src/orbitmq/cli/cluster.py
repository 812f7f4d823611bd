"""`orbitmq cluster`: the brokers of all clusters."""

from __future__ import annotations

from typing import Any

from orbitmq.cli.access import Access
from orbitmq.cli.terminal.options import (
    FormatOption,
)
from orbitmq.cli.terminal.output import Format, Row, say, show_rows

COLUMNS = ("cluster", "broker", "id", "address", "version", "put_per_s", "get_per_s", "messages_today")


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
    rows: list[Row] = []
    async with access.admin() as admin:
        info = await admin.cluster_info()
        for cluster_name, broker_names in sorted(info.clusters.items()):
            for data in (info.brokers[name] for name in sorted(broker_names) if name in info.brokers):
                for broker_id, address in sorted(data.addresses.items()):
                    member = {"cluster": cluster_name, "broker": data.broker_name, "id": broker_id, "address": address}
                    rows.append(member | await _runtime(admin, address))
    return rows


async def _runtime(admin: Any, address: str) -> dict[str, Any]:
    """Return what the broker says of itself; a broker that does not answer is shown as such."""
    from orbitmq.errors import ClientError

    try:
        values = await admin.broker_runtime_info(address)
    except ClientError as error:
        return {"problem": str(error)}
    return {
        "version": values.get("brokerVersionDesc"),
        "put_per_s": _first(values.get("putTps")),
        "get_per_s": _first(values.get("getTransferredTps")),
        "messages_today": _difference(values, "msgPutTotalTodayNow", "msgPutTotalTodayMorning"),
        "warnings": values.get("warnings"),
    }


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
