"""`orbitmq up`: a NameServer and a broker in one process, for a laptop or a notebook."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from orbitmq.address import WILDCARDS, format_address, parse_address
from orbitmq.broker.app import Broker
from orbitmq.broker.config import BrokerConfig
from orbitmq.cli.servers.logging import LogLevel, configure_logging
from orbitmq.cli.servers.serving import PORT_MAX, HostOption, LogLevelOption
from orbitmq.cli.terminal.options import FormatOption
from orbitmq.cli.terminal.output import Format
from orbitmq.nameserver.app import NameServer
from orbitmq.nameserver.config import NameServerConfig


class Pair:
    """A NameServer, and a broker that registers with it.

    Args:
        name_server_config: may name port 0: the broker is told the port that was chosen.
        broker_config: its NameServer is replaced by the one of the pair.
    """

    def __init__(self, name_server_config: NameServerConfig, broker_config: BrokerConfig) -> None:
        self._name_server = NameServer(name_server_config)
        self._broker_config = broker_config
        self._broker: Broker | None = None

    @property
    def name_server_address(self) -> str:
        """Where clients reach the NameServer, as host:port: clients cannot connect to a wildcard such as 0.0.0.0."""
        host, port = parse_address(self._name_server.address)
        return format_address("127.0.0.1" if host in WILDCARDS else host, port)

    @property
    def broker_address(self) -> str:
        """Where the broker listens, as host:port."""
        assert self._broker is not None, "not started"
        return self._broker.address

    @property
    def metrics(self) -> dict[str, str]:
        """Where the HTTP ports are that the settings ask for, as host:port: `nameserver_metrics`, `broker_metrics`."""
        assert self._broker is not None, "not started"
        found = {
            "nameserver_metrics": self._name_server.metrics_address,
            "broker_metrics": self._broker.metrics_address,
        }
        return {name: address for name, address in found.items() if address is not None}

    async def start(self) -> None:
        """Start the NameServer, then the broker that needs to know its port."""
        await self._name_server.start()
        broker = Broker(replace(self._broker_config, namesrv_addr=self.name_server_address))
        await broker.start()
        self._broker = broker

    async def stop(self) -> None:
        """Stop the broker, then the NameServer it says good-bye to."""
        if self._broker is not None:
            await self._broker.stop()
        await self._name_server.stop()


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


def up(
    host: HostOption = "127.0.0.1",
    nameserver_port: NameServerPort = 9876,
    broker_port: BrokerPort = 10911,
    nameserver_metrics_port: NameServerMetricsPort = -1,
    broker_metrics_port: BrokerMetricsPort = -1,
    data_dir: DataDirOption = None,
    output: FormatOption = Format.TABLE,
    log_level: LogLevelOption = LogLevel.WARNING,
) -> None:
    """Run a NameServer and a broker in one process, until Ctrl-C or SIGTERM."""
    from orbitmq.broker.config import BrokerConfig
    from orbitmq.cli.servers.serving import serve_until_signal, show_ready
    from orbitmq.cli.servers.up import Pair
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
