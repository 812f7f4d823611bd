"""`orbitmq dashboard`: pages that show and change a cluster, ours or Java's, in a browser; and lines of its file of users."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orbitmq.cli.access import Access
from orbitmq.cli.servers.logging import LogLevel, configure_logging
from orbitmq.cli.servers.options import PORT_MAX, LogLevelOption, refuse_options_before
from orbitmq.cli.terminal.options import (
    DEFAULT_NAME_SERVERS,
    DEFAULT_TIMEOUT_MS,
    FormatOption,
    NameServersOption,
    SecurityOption,
    TimeoutOption,
)
from orbitmq.cli.terminal.output import Format, say

if TYPE_CHECKING:
    from orbitmq.body_schemas import Schema
    from orbitmq.dashboard.app import Dashboard, DashboardOptions
    from orbitmq.dashboard.users import Logins

app = typer.Typer(rich_markup_mode=None)


def load_dashboard() -> tuple[type[Dashboard], type[DashboardOptions]]:
    """Return the dashboard's classes; ends the command with a sentence where its packages are not installed."""
    try:
        from orbitmq.dashboard.app import Dashboard, DashboardOptions
    except ImportError as error:
        say(f"the dashboard needs {error.name}: pip install 'orbitmq[dashboard]'")
        raise typer.Exit(1) from None
    return Dashboard, DashboardOptions


def configure_dashboard_logging(level: LogLevel) -> None:
    """Configure the process's log, without a line for each route of each page's clients."""
    configure_logging(level)
    logging.getLogger("orbitmq.client.routing.routes").setLevel(logging.WARNING)


@app.callback(invoke_without_command=True)
def dashboard(
    context: typer.Context,
    host: Annotated[
        str, typer.Option("--host", help="Address to listen on; one that other machines reach needs a login.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=PORT_MAX, help="0 chooses one and prints it.")] = 8080,
    hosts: Annotated[
        list[str] | None,
        typer.Option("--allowed-host", metavar="NAME", help="Name by which browsers reach it. May be repeated."),
    ] = None,
    users: Annotated[
        Path | None,
        typer.Option("--users", metavar="FILE", help="Users who log in; `orbitmq dashboard user` makes its lines."),
    ] = None,
    cluster_users: Annotated[
        bool,
        typer.Option(
            "--cluster-users", help="The users of the cluster's brokers log in, with access key and secret key."
        ),
    ] = False,
    read_only: Annotated[bool, typer.Option("--read-only", help="Change nothing, whatever a user's role is.")] = False,
    audit_log: Annotated[
        Path | None,
        typer.Option("--audit-log", metavar="FILE", help="A line of JSON for every change.  [default: the log]"),
    ] = None,
    schemas: Annotated[
        list[str] | None,
        typer.Option(
            "--schema",
            metavar="TOPIC=FILE",
            help="Decode a topic's bodies: orders=orders.avsc (Avro), orders=orders.desc:shop.Order (Protobuf). May be repeated.",
        ),
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option("--certificate", metavar="FILE", help="For HTTPS, in PEM.")
    ] = None,
    private_key: Annotated[Path | None, typer.Option("--private-key", metavar="FILE", help="Its key, in PEM.")] = None,
    output: FormatOption = Format.TABLE,
    log_level: LogLevelOption = LogLevel.INFO,
    name_servers: NameServersOption = DEFAULT_NAME_SERVERS,
    security: SecurityOption = None,
    timeout_ms: TimeoutOption = DEFAULT_TIMEOUT_MS,
) -> None:
    """Show brokers, topics, groups and messages in a browser, and change them, until Ctrl-C or SIGTERM."""
    if context.invoked_subcommand is not None:
        refuse_options_before(context)
        return
    from orbitmq.cli.servers.serving import serve_until_signal, show_ready
    from orbitmq.net.loop import run

    configure_dashboard_logging(log_level)
    serve, options = load_dashboard()
    access = Access(name_servers, security, timeout_ms)

    def make() -> Dashboard:
        from orbitmq.audit import AuditFile

        given = options(
            host=host,
            port=port,
            hosts=hosts or (),
            logins=_logins(access, users, cluster_users),
            is_read_only=read_only,
            audit=None if audit_log is None else AuditFile(audit_log),
            certificate=certificate,
            private_key=private_key,
            schemas=dict(map(_schema, schemas or ())),
        )
        return serve(name_servers, given, timeout_ms=timeout_ms, security=access.load_security())

    run(serve_until_signal(make, lambda service: show_ready(output, dashboard=service.url)))


def _schema(given: str) -> tuple[str, Schema]:
    """Return the topic and the schema of `TOPIC=FILE`."""
    from orbitmq.body_schemas import load_schema

    topic, equals, file = given.partition("=")
    if not (topic and equals):
        raise typer.BadParameter(f"{given!r} is not TOPIC=FILE", param_hint="--schema")
    return topic, load_schema(file)


def _logins(access: Access, users: Path | None, cluster_users: bool) -> Logins | None:
    from orbitmq.admin.cluster_clients import ClusterClients
    from orbitmq.dashboard.users import ClusterLogins, LocalLogins, load_users

    if users is not None and cluster_users:
        raise typer.BadParameter("either the users of a file or those of the cluster", param_hint="--cluster-users")
    if users is not None:
        return LocalLogins(load_users(users), users)
    if cluster_users:
        security = access.load_security()
        return ClusterLogins(ClusterClients(access.name_servers, timeout_ms=access.timeout_ms, security=security))
    return None


@app.command("user")
def user(
    name: Annotated[str, typer.Argument(help="The user's name.")],
    role: Annotated[str, typer.Option("--role", help="reader, operator or admin.")] = "reader",
) -> None:
    """Print the line of a user for the file of `--users`. The password is asked for, or read from a pipe."""
    load_dashboard()
    from orbitmq.dashboard.sessions import Role
    from orbitmq.dashboard.users import format_user

    if role not in list(Role):
        raise typer.BadParameter(f"{role!r} is none of {', '.join(Role)}", param_hint="--role")
    if sys.stdin.isatty():
        password = typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        password = sys.stdin.readline().rstrip("\n")
    print(format_user(name, Role(role), password))
