"""`orbitmq up`: a NameServer and a broker in one process, for a laptop or a notebook; or a group of brokers to kill one of."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from orbitmq.cli.servers.logging import LogLevel, configure_logging
from orbitmq.cli.servers.options import PORT_MAX, HostOption, LogLevelOption
from orbitmq.cli.terminal.options import FormatOption
from orbitmq.cli.terminal.output import Format

BROKER_NAME = "broker-a"

NameServerPort = Annotated[
    int, typer.Option("--nameserver-port", min=0, max=PORT_MAX, help="0 chooses one and prints it.")
]
BrokerPort = Annotated[int, typer.Option("--broker-port", min=0, max=PORT_MAX, help="0 chooses one and prints it.")]
NameServerMetricsPort = Annotated[
    int, typer.Option("--nameserver-metrics-port", min=-1, max=PORT_MAX, help="HTTP port of its metrics; -1: none.")
]
BrokerMetricsPort = Annotated[
    int, typer.Option("--broker-metrics-port", min=-1, max=PORT_MAX, help="HTTP port of its metrics; -1: none.")
]
DataDirOption = Annotated[
    Path | None,
    typer.Option(
        "--data-dir", file_okay=False, metavar="DIR", help="Where messages are kept.  [default: ~/.local/share/orbitmq]"
    ),
]


BrokersOption = Annotated[
    int,
    typer.Option(
        "--brokers",
        min=1,
        max=7,
        help="More than one: processes of one broker name that have every message, and elect another master when theirs is lost.",
    ),
]


def up(
    host: HostOption = "127.0.0.1",
    brokers: BrokersOption = 1,
    nameserver_port: NameServerPort = 9876,
    broker_port: BrokerPort = 10911,
    nameserver_metrics_port: NameServerMetricsPort = -1,
    broker_metrics_port: BrokerMetricsPort = -1,
    data_dir: DataDirOption = None,
    output: FormatOption = Format.TABLE,
    log_level: LogLevelOption = LogLevel.WARNING,
) -> None:
    """Run a NameServer and a broker in one process, until Ctrl-C or SIGTERM; with --brokers 3 a group that survives a kill -9."""
    from orbitmq.broker.config import BrokerConfig
    from orbitmq.cli.servers.pair import Pair
    from orbitmq.cli.servers.serving import serve_until_signal, show_ready
    from orbitmq.nameserver.config import NameServerConfig
    from orbitmq.net.loop import run

    configure_logging(log_level)
    root = data_dir or default_data_dir()
    name_server = NameServerConfig(
        bind_address=host,
        listen_port=nameserver_port,
        metrics_port=nameserver_metrics_port,
        kv_config_path=root / "nameserver" / "kvConfig.json",
        config_store_path=root / "nameserver" / "namesrv.properties",
    )
    broker = BrokerConfig(
        broker_name=BROKER_NAME,
        bind_address=host,
        listen_port=broker_port,
        metrics_port=broker_metrics_port,
        store_path_root_dir=root / BROKER_NAME,
    )

    if brokers > 1:
        from orbitmq.cli.servers.group import Group

        def announce_group(group: Group) -> None:
            show_ready(output, nameserver=group.name_server_address, **group.members, data_dir=str(root))
            if output is Format.TABLE:
                print(f"export NAMESRV_ADDR={group.name_server_address}", flush=True)

        members = replace(broker, store_path_root_dir=root)
        run(serve_until_signal(lambda: Group(name_server, members, brokers), announce_group))
        return

    def announce(pair: Pair) -> None:
        servers = {"nameserver": pair.name_server_address, "broker": pair.broker_address}
        show_ready(output, **servers, **pair.metrics, data_dir=str(root))
        if output is Format.TABLE:
            print(f"export NAMESRV_ADDR={pair.name_server_address}", flush=True)

    run(serve_until_signal(lambda: Pair(name_server, broker), announce))


def default_data_dir() -> Path:
    """Return where `up` keeps messages by default."""
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(home) / "orbitmq"
