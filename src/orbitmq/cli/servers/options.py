"""Options of the commands that run servers, so that they are spelt and explained in one place."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orbitmq.cli.servers.logging import LogLevel

PORT_MAX = 65535
LogLevelOption = Annotated[LogLevel, typer.Option("--log-level", help="From which severity on to log, on stderr.")]
HostOption = Annotated[str, typer.Option("--host", help="Address to listen on.")]
ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config", "-c", exists=True, dir_okay=False, metavar="FILE", help="Properties file with RocketMQ's own keys."
    ),
]
STRICT_HELP = "Refuse keys of the file that neither RocketMQ 5.3.3 nor orbitmq knows; else name them in the log."
MetricsPortOption = Annotated[
    int | None,
    typer.Option(
        "--metrics-port", min=-1, max=PORT_MAX, help="HTTP port of /metrics, /healthz, /readyz.  [default: none]"
    ),
]
