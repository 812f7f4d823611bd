"""`orbitmq health`: how every NameServer is doing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from orbitmq.cli.access import ask_each
from orbitmq.cli.terminal.exits import ExitCode, explain
from orbitmq.cli.terminal.options import (
    DEFAULT_NAME_SERVERS,
    DEFAULT_TIMEOUT_MS,
    FormatOption,
    NameServersOption,
    SecurityOption,
    TimeoutOption,
)
from orbitmq.cli.terminal.output import Format, say, show_json, show_rows

if TYPE_CHECKING:
    from orbitmq.net.pool import ConnectionPool


def health(
    name_servers: NameServersOption = DEFAULT_NAME_SERVERS,
    security: SecurityOption = None,
    output: FormatOption = Format.TABLE,
    timeout_ms: TimeoutOption = DEFAULT_TIMEOUT_MS,
) -> None:
    """Show the health of every NameServer: alerts, warnings, figures. Exit code 1 when one is not healthy."""
    from orbitmq.admin.monitoring import ask_health
    from orbitmq.errors import ClientError

    async def ask(pool: ConnectionPool, address: str) -> dict[str, Any]:
        try:
            return await ask_health(pool, address, timeout_ms=timeout_ms)
        except ClientError as error:
            return {"healthy": False, "reachable": False, "alerts": [{"rule": "Unreachable", "reason": explain(error)}]}

    answers, _ = ask_each(name_servers, ask, security)
    if output is Format.JSON:
        show_json([{"nameServer": address, **found} for address, found in answers.items()])
    else:
        rows = [
            {
                "name_server": address,
                "healthy": found["healthy"],
                "brokers": found.get("brokers"),
                "topics": found.get("topics"),
                "connections": found.get("connections"),
                "memory_mb": round(found["memory"] / 2**20) if "memory" in found else None,
                "lag_ms": found.get("loopLagMs"),
            }
            for address, found in answers.items()
        ]
        show_rows(rows, list(rows[0]), output)
        for address, found in answers.items():
            for alert in found["alerts"]:
                say(f"{address}: {alert['rule']}: {alert['reason']}")
            for warning in found.get("warnings", ()):
                say(f"{address}: {warning}")
    if not any(found.get("reachable", True) for found in answers.values()):
        raise typer.Exit(ExitCode.UNREACHABLE)
    if not all(found["healthy"] for found in answers.values()):
        raise typer.Exit(ExitCode.NO)
