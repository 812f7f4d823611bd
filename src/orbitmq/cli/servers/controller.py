"""`orbitmq controller`: one of the controllers that decide which broker of a name leads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from orbitmq.cli.servers.logging import LogLevel, configure_logging
from orbitmq.cli.servers.options import STRICT_HELP, LogLevelOption, MetricsPortOption
from orbitmq.cli.terminal.options import FormatOption
from orbitmq.cli.terminal.output import Format


def controller(
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
    """Run a controller until Ctrl-C or SIGTERM; three of them go on when one is lost."""
    from orbitmq.cli.servers.serving import serve_until_signal, show_ready
    from orbitmq.controller.app import Controller
    from orbitmq.controller.config import ControllerConfig
    from orbitmq.controller.consensus.node import RaftNode
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

    run(serve_until_signal(lambda: Controller(settings, RaftNode), announce))
