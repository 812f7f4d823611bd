"""`orbitmq exporter`: a cluster's metrics for Prometheus, ours or Java's, under rocketmq-exporter's names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from orbitmq.cli.access import Access
from orbitmq.cli.servers.logging import LogLevel, configure_logging
from orbitmq.cli.servers.options import PORT_MAX, HostOption, LogLevelOption
from orbitmq.cli.terminal.options import FormatOption, check_number
from orbitmq.cli.terminal.output import Format

if TYPE_CHECKING:
    from orbitmq.exporter.app import Exporter


def exporter(
    access: Access,
    host: HostOption = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=PORT_MAX, help="0 chooses one and prints it.")] = 5557,
    interval: Annotated[
        float, typer.Option("--interval", min=1, help="Seconds from one collection to the next.", callback=check_number)
    ] = 15,
    log_level: LogLevelOption = LogLevel.INFO,
    output: FormatOption = Format.TABLE,
) -> None:
    """Show brokers, topics, groups and their lag to Prometheus at /metrics, until Ctrl-C or SIGTERM.

    The cluster is asked in the background; a scrape gets what the last collection has found. There is no login: all that
    reach the port read all names.
    """
    from orbitmq.cli.servers.serving import serve_until_signal, show_ready
    from orbitmq.exporter.app import Exporter
    from orbitmq.net.loop import run

    configure_logging(log_level)

    def make() -> Exporter:
        return Exporter(
            access.name_servers,
            host=host,
            port=port,
            interval_s=interval,
            timeout_ms=access.timeout_ms,
            security=access.load_security(),
        )

    run(serve_until_signal(make, lambda service: show_ready(output, exporter=f"http://{service.address}/metrics")))
