"""`orbitmq controller`: one of the controllers that decide which broker of a name leads; `status` and `elect` ask those that run."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orbitmq.cli.access import Access, command
from orbitmq.cli.servers.logging import LogLevel, configure_logging
from orbitmq.cli.servers.options import STRICT_HELP, LogLevelOption, MetricsPortOption
from orbitmq.cli.terminal.exits import ExitCode
from orbitmq.cli.terminal.options import FormatOption
from orbitmq.cli.terminal.output import Format, Row, say, show_rows
from orbitmq.cli.terminal.printable import printable

if TYPE_CHECKING:
    from orbitmq.admin.controllers import Controllers
    from orbitmq.net.pool import ConnectionPool


app = typer.Typer(rich_markup_mode=None)

AddressesOption = Annotated[
    str, typer.Option("--controllers", "-a", metavar="HOST:PORT[;HOST:PORT]", help="Controllers to ask.")
]
COLUMNS = ("broker", "id", "role", "epoch", "in_sync", "alive", "address")


@app.callback(invoke_without_command=True)
def controller(
    context: typer.Context,
    config: Annotated[
        Path | None, typer.Option("--config", "-c", metavar="FILE", help="Properties file with RocketMQ's own keys.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict/--no-strict", help=STRICT_HELP)] = False,
    peers: Annotated[
        str | None,
        typer.Option(
            "--peers",
            metavar="NAME-HOST:PORT[;...]",
            help="All controllers.  [default: n0-127.0.0.1:9878, this one alone]",
        ),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Which of the peers this one is.  [default: n0]")] = None,
    host: Annotated[str | None, typer.Option("--host", help="Address to listen on.  [default: 0.0.0.0]")] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            "--data-dir", file_okay=False, metavar="DIR", help="Where its log is kept.  [default: ~/DLedgerController]"
        ),
    ] = None,
    metrics_port: MetricsPortOption = None,
    output: FormatOption = Format.TABLE,
    log_level: LogLevelOption = LogLevel.INFO,
) -> None:
    """Run a controller until Ctrl-C or SIGTERM; three of them go on when one is lost. With a command: ask those that run."""
    if context.invoked_subcommand is not None:
        return
    from orbitmq.cli.servers.serving import serve_until_signal, show_ready
    from orbitmq.controller.app import Controller
    from orbitmq.controller.config import ControllerConfig
    from orbitmq.controller.making import make_consensus
    from orbitmq.net.loop import run

    configure_logging(log_level)
    given: dict[str, Any] = {
        "controller_d_leger_peers": peers,
        "controller_d_leger_self_id": name,
        "bind_address": host,
        "metrics_port": metrics_port,
    }
    if data_dir is not None:
        given["controller_store_path"] = data_dir
        if config is None:  # else changes are saved where the next start reads them
            given["config_store_path"] = data_dir / "controller.properties"
    overrides = {name: value for name, value in given.items() if value is not None}
    settings = (
        ControllerConfig.from_properties(config, strict=strict, **overrides)
        if config
        else ControllerConfig(**overrides)
    )

    def announce(service: Controller) -> None:
        metrics = {"metrics": service.metrics_address} if service.metrics_address else {}
        show_ready(
            output,
            controller=settings.address,
            peers=settings.controller_d_leger_peers,
            data_dir=str(settings.controller_store_path),
            **metrics,
        )

    run(serve_until_signal(lambda: Controller(settings, make_consensus), announce))


async def status(
    access: Access,
    brokers: Annotated[
        list[str] | None, typer.Argument(help="Broker names.  [default: all that NameServers know]")
    ] = None,
    controllers: AddressesOption = "127.0.0.1:9878",
    output: FormatOption = Format.TABLE,
) -> None:
    """Show who leads each broker name, since which epoch, and who is in its sync set; and what is wrong with the controllers.

    Exit code 1: a controller or a master is missing; 3: no controller answers.
    """
    from orbitmq.admin.controller_facts import controller_issues
    from orbitmq.admin.controllers import ask_controllers
    from orbitmq.errors import ClientError
    from orbitmq.settings import parse_addresses

    async with _asking(access, controllers) as (asked, pool):
        facts = await ask_controllers(pool, parse_addresses("controllers", controllers), timeout_ms=access.timeout_ms)
        names = set(brokers or ())
        if not brokers:
            names.update(str(name) for one in facts for name in one.health.get("groupNames") or ())
            try:
                async with access.admin() as admin:
                    names.update((await admin.cluster_info()).brokers)
            except ClientError:
                # Java's controllers do not name the groups that they have.
                if any(one.problem is None and "groupNames" not in one.health for one in facts):
                    raise
        is_led = any(one.leader for one in facts)
        states = await asked.sync_states(sorted(names)) if is_led else {}
    rows: list[Row] = []
    for name, state in sorted(states.items()):
        members = [(member, True) for member in state.in_sync] + [(member, False) for member in state.not_in_sync]
        for member, is_in_sync in sorted(members, key=lambda one: one[0].broker_id):
            rows.append(
                {
                    "broker": name,
                    "id": member.broker_id,
                    "role": "master" if member.broker_id == state.master else "slave",
                    "epoch": state.master_epoch,
                    "in_sync": is_in_sync,
                    "alive": member.is_alive,
                    "address": member.address,
                }
            )
    show_rows(rows, COLUMNS, output)
    issues = controller_issues(facts)
    for issue in issues:
        say(printable(f"controller {issue.address}: {issue.text}"))
    if all(one.problem is not None for one in facts):
        raise typer.Exit(ExitCode.UNREACHABLE)
    if any(issue.is_error for issue in issues) or any(one.problem is not None for one in facts):
        raise typer.Exit(ExitCode.NO)


async def elect(
    access: Access,
    broker: Annotated[str, typer.Argument(help="The broker name.")],
    broker_id: Annotated[int, typer.Option("--to", min=1, help="The id of the member that is to lead; see `status`.")],
    controllers: AddressesOption = "127.0.0.1:9878",
) -> None:
    """Let another member of the sync set lead, as before an upgrade of the master."""
    async with _asking(access, controllers) as (asked, _):
        epoch = await asked.hand_over(broker, broker_id)
    say(f"member {broker_id} of {broker} leads, in epoch {epoch}")


@asynccontextmanager
async def _asking(access: Access, addresses: str) -> AsyncIterator[tuple[Controllers, ConnectionPool]]:
    from orbitmq.admin.controllers import Controllers
    from orbitmq.net.pool import ConnectionPool
    from orbitmq.settings import parse_addresses

    pool = ConnectionPool(name="admin", **access.load_security()._asdict())
    try:
        yield Controllers(parse_addresses("controllers", addresses), pool), pool
    finally:
        await pool.close()


command(app, "status")(status)
command(app, "elect")(elect)
