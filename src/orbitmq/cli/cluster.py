"""`orbitmq cluster`: the brokers of all clusters."""

from __future__ import annotations

from orbitmq.cli.access import Access
from orbitmq.cli.terminal.options import (
    FormatOption,
)
from orbitmq.cli.terminal.output import Format, Row, say, show_rows
from orbitmq.cli.terminal.printable import printable

COLUMNS = (
    "cluster", "broker", "id", "role", "behind", "in_sync", "epoch", "address", "version", "put_per_s", "get_per_s",
    "messages_today",
)  # fmt: skip


async def cluster(
    access: Access,
    output: FormatOption = Format.TABLE,
) -> None:
    """Show every broker of every cluster."""
    rows, missing = await _rows(access)
    show_rows(rows, COLUMNS, output)
    for name, why in missing.items():
        say(printable(f"{name}: {why}"))
    for row in rows:
        for said in ("problem", "warnings"):
            if row.get(said):
                say(f"{row['broker']}: {row[said]}")
    await _say_controllers(access, rows)


async def _say_controllers(access: Access, rows: list[Row]) -> None:
    """Say what is wrong with the controllers that brokers name."""
    from orbitmq.admin.brokers import controllers_of
    from orbitmq.admin.controller_facts import controller_issues
    from orbitmq.admin.controllers import ask_controllers
    from orbitmq.net.pool import ConnectionPool

    addresses = controllers_of(row.get("controllers") for row in rows)
    if not addresses:
        return
    pool = ConnectionPool(name="admin", **access.load_security()._asdict())
    try:
        for issue in controller_issues(await ask_controllers(pool, addresses, timeout_ms=access.timeout_ms)):
            say(printable(f"controller {issue.address}: {issue.text}"))
    finally:
        await pool.close()


async def _rows(access: Access) -> tuple[list[Row], dict[str, str]]:
    from orbitmq.admin.brokers import find_brokers

    async with access.admin() as admin:
        found, missing = await find_brokers(admin), await admin.missing_masters()
    rows = [{**row, "put_per_s": _rate(row["in_per_s"]), "get_per_s": _rate(row["out_per_s"])} for row in found.rows]
    return sorted(rows, key=lambda row: (row["cluster"], row["broker"], row["id"])), missing


def _rate(value: float | None) -> float | None:
    return None if value is None else round(value, 1)
