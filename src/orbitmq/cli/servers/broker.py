"""`orbitmq broker`: a broker on its own; and `orbitmq broker config|status|stats`, about those that run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orbitmq.cli.access import command
from orbitmq.cli.brokers.config import app as config_app
from orbitmq.cli.brokers.forget import forget
from orbitmq.cli.brokers.retire import retire
from orbitmq.cli.brokers.stats import broker_stats, status
from orbitmq.cli.servers.logging import LogLevel, configure_logging
from orbitmq.cli.servers.options import (
    PORT_MAX,
    STRICT_HELP,
    ConfigOption,
    LogLevelOption,
    MetricsPortOption,
    SettingsOption,
    parse_settings,
    refuse_options_before,
)
from orbitmq.cli.terminal.options import FormatOption
from orbitmq.cli.terminal.output import Format

if TYPE_CHECKING:
    from orbitmq.broker.config import BrokerConfig

app = typer.Typer(rich_markup_mode=None)
app.add_typer(config_app, name="config")
command(app, "status")(status)
command(app, "stats")(broker_stats)
command(app, "retire")(retire)
command(app, "forget")(forget)


@app.callback(invoke_without_command=True)
def broker(
    context: typer.Context,
    config: ConfigOption = None,
    strict: Annotated[bool, typer.Option("--strict/--no-strict", help=STRICT_HELP)] = True,
    name_servers: Annotated[
        str | None,
        typer.Option(
            "--name-servers",
            "-n",
            envvar="NAMESRV_ADDR",
            metavar="HOST:PORT[;HOST:PORT]",
            help="NameServers to register with.",
        ),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="The broker's name.  [default: the host's]")] = None,
    cluster: Annotated[
        str | None, typer.Option("--cluster", help="The cluster that it belongs to.  [default: DefaultCluster]")
    ] = None,
    host: Annotated[str | None, typer.Option("--host", help="Address to listen on.  [default: 0.0.0.0]")] = None,
    port: Annotated[
        int | None,
        typer.Option("--port", min=0, max=PORT_MAX, help="0 chooses one and prints it.  [default: 10911]"),
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option("--data-dir", file_okay=False, metavar="DIR", help="Where messages are kept.  [default: ~/store]"),
    ] = None,
    settings: SettingsOption = None,
    metrics_port: MetricsPortOption = None,
    output: FormatOption = Format.TABLE,
    log_level: LogLevelOption = LogLevel.INFO,
) -> None:
    """Run a broker until Ctrl-C or SIGTERM; with a command: look at brokers that run, and change their settings."""
    if context.invoked_subcommand is not None:
        refuse_options_before(context)
        return
    from orbitmq.broker.failover.making import BrokerProgram, make_broker
    from orbitmq.cli.servers.serving import serve_until_signal, show_ready
    from orbitmq.net.loop import run

    configure_logging(log_level)
    given = {
        "namesrv_addr": name_servers,
        "broker_name": name,
        "broker_cluster_name": cluster,
        "bind_address": host,
        "listen_port": port,
        "store_path_root_dir": data_dir,
        "metrics_port": metrics_port,
    }
    overrides = {key: value for key, value in given.items() if value is not None}
    read = _read_settings(config, settings, overrides, strict)

    def announce(service: BrokerProgram) -> None:
        metrics = {"metrics": service.metrics_address} if service.metrics_address else {}
        show_ready(
            output,
            broker=service.address,
            name=read.broker_name,
            name_servers=read.namesrv_addr or read.name_server_source,
            data_dir=str(read.store_path_root_dir),
            **metrics,
        )

    run(serve_until_signal(lambda: make_broker(read), announce))


def _read_settings(
    config: Path | None, pairs: list[str] | None, overrides: dict[str, Any], strict: bool
) -> BrokerConfig:
    from orbitmq.broker.config import BrokerConfig
    from orbitmq.broker.settings.file import check_keys
    from orbitmq.settings import read_properties

    found: dict[str, str] = {}
    if config:
        check_keys(config, strict=strict)
        found, overrides = read_properties(config), {"broker_config_path": str(config), **overrides}
    settings = BrokerConfig.from_mapping(found | parse_settings(pairs), **overrides)
    if not settings.has_name_servers:
        raise typer.BadParameter(
            "no NameServer to register with; name one here, in NAMESRV_ADDR, or as namesrvAddr (or addressServer) in the file",
            param_hint="--name-servers",
        )
    return settings
