"""`orbitmq up`: a NameServer and a broker in one process, for a laptop or a notebook; or a group of brokers to kill one of."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orbitmq.cli.servers.logging import LogLevel, configure_logging
from orbitmq.cli.servers.options import (
    PORT_MAX,
    ConfigOption,
    HostOption,
    LogLevelOption,
    SettingsOption,
    parse_settings,
)
from orbitmq.cli.terminal.options import FormatOption
from orbitmq.cli.terminal.output import Format

if TYPE_CHECKING:
    from orbitmq.cli.servers.up_dashboard import Servers

BROKER_NAME = "broker-a"
_CHOSEN = frozenset(("brokerId", "namesrvAddr", "bindAddress", "listenPort", "metricsPort", "storePathRootDir"))
"""Settings that options of `up` choose, or that follow from them."""

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
    config: ConfigOption = None,
    settings: SettingsOption = None,
    dashboard: Annotated[
        bool, typer.Option("--dashboard", help="Pages that show the cluster, on a port of this machine.")
    ] = False,
    dashboard_port: Annotated[
        int, typer.Option("--dashboard-port", min=0, max=PORT_MAX, help="0 chooses one and prints it.")
    ] = 8080,
    output: FormatOption = Format.TABLE,
    log_level: LogLevelOption = LogLevel.WARNING,
) -> None:
    """Run a NameServer and a broker in one process, until Ctrl-C or SIGTERM; with --brokers 3 a group that survives a kill -9."""
    from orbitmq.broker.config import BrokerConfig
    from orbitmq.cli.servers.serving import serve_until_signal, show_ready
    from orbitmq.nameserver.config import NameServerConfig
    from orbitmq.net.loop import run

    configure_logging(log_level, is_plain=output is Format.TABLE)
    root = data_dir or default_data_dir()
    name_server = NameServerConfig(
        bind_address=host,
        listen_port=nameserver_port,
        metrics_port=nameserver_metrics_port,
        kv_config_path=root / "nameserver" / "kvConfig.json",
        config_store_path=root / "nameserver" / "namesrv.properties",
    )
    broker = BrokerConfig.from_mapping(
        {"brokerName": BROKER_NAME, "enablePropertyFilter": "true"} | _settings(config, settings),
        bind_address=host,
        listen_port=broker_port,
        metrics_port=broker_metrics_port,
        store_path_root_dir=root / BROKER_NAME,
    )

    def make() -> Servers:
        if brokers > 1:
            from orbitmq.cli.servers.group import Group

            return Group(name_server, replace(broker, store_path_root_dir=root), brokers)
        from orbitmq.cli.servers.pair import Pair

        return Pair(name_server, broker)

    def announce(servers: Servers) -> None:
        show_ready(output, nameserver=servers.name_server_address, **servers.ready_fields, data_dir=str(root))
        if output is Format.TABLE:
            print(f"export NAMESRV_ADDR={servers.name_server_address}", flush=True)

    if not dashboard:
        run(serve_until_signal(make, announce))
        return
    from orbitmq.cli.servers.up_dashboard import DashboardProcess, WithDashboard

    pages = DashboardProcess(dashboard_port, log_level)
    pages.load()  # while the servers' modules are loaded
    try:
        run(serve_until_signal(lambda: WithDashboard(make(), pages), announce))
    finally:
        pages.close()


def _settings(config: Path | None, pairs: list[str] | None) -> dict[str, str]:
    """Return the broker's settings of a file, and of `KEY=VALUE` words, which win.

    Raises:
        ConfigError: a key is none of a broker's, or one that `up` chooses itself.
    """
    from orbitmq.broker.settings.file import check_keys
    from orbitmq.settings import read_properties

    found: dict[str, str] = {}
    if config is not None:
        check_keys(config, strict=True)
        found = {key: value for key, value in read_properties(config).items() if key not in _CHOSEN}
    return found | parse_settings(pairs, _CHOSEN)


def default_data_dir() -> Path:
    """Return where `up` keeps messages by default."""
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(home) / "orbitmq"
