"""`orbitmq mcp`: tools for assistants over a cluster, ours or Java's (Model Context Protocol)."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated

import typer

from orbitmq.cli.access import Access
from orbitmq.cli.servers.logging import LogLevel, configure_logging
from orbitmq.cli.servers.options import PORT_MAX, LogLevelOption
from orbitmq.cli.terminal.options import FormatOption
from orbitmq.cli.terminal.output import Format, say

if TYPE_CHECKING:
    from orbitmq.assistants.server import HttpServer
    from orbitmq.audit import LogOfChanges


def load_server() -> ModuleType:
    """Return the module of the servers; ends the command with a sentence where its packages are not installed."""
    try:
        from orbitmq.assistants import server
    except ImportError as error:
        say(f"the tools for assistants need {error.name}: pip install 'orbitmq[mcp]'")
        raise typer.Exit(1) from None
    return server


def mcp(
    access: Access,
    http: Annotated[bool, typer.Option("--http", help="Streamable HTTP instead of stdio.")] = False,
    host: Annotated[
        str, typer.Option("--host", help="Address for --http: this machine's own, for there is no login.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=PORT_MAX, help="Port for --http; 0 chooses one and prints it.")
    ] = 8081,
    allow_changes: Annotated[
        bool, typer.Option("--allow-changes", help="Also the tools that change something; without it they refuse.")
    ] = False,
    audit_log: Annotated[
        Path | None,
        typer.Option("--audit-log", help="Append a line of JSON for each change to this file; without it, to the log."),
    ] = None,
    log_level: LogLevelOption = LogLevel.WARNING,
    output: FormatOption = Format.TABLE,
) -> None:
    """Serve tools for assistants on stdio, or with --http until Ctrl-C or SIGTERM. Nothing is changed without --allow-changes."""
    if audit_log is not None and not allow_changes:
        raise typer.BadParameter("there are no changes without --allow-changes", param_hint="--audit-log")
    servers = load_server()

    from orbitmq.admin.cluster_clients import ClusterClients
    from orbitmq.cli.servers.serving import serve_until_signal, show_ready
    from orbitmq.net.loop import run

    configure_logging(log_level)
    audit = _audit(audit_log) if allow_changes else None

    def clients() -> ClusterClients:
        return ClusterClients(
            access.name_servers, "orbitmq-assistants", timeout_ms=access.timeout_ms, security=access.load_security()
        )

    if not http:
        run(servers.serve_stdio(clients(), audit))
        return

    def make() -> HttpServer:
        server: HttpServer = servers.HttpServer(clients(), audit, host=host, port=port)
        return server

    run(serve_until_signal(make, lambda service: show_ready(output, mcp=f"http://{service.address}{servers.PATH}")))


def _audit(path: Path | None) -> LogOfChanges:
    from orbitmq.audit import AuditFile, AuditLogging

    return AuditLogging() if path is None else AuditFile(path)
