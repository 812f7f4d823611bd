"""Options that several commands share, so that they are spelt and explained in one place."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orbitmq.cli.logging import LogLevel
from orbitmq.cli.output import Format

DEFAULT_NAME_SERVERS = "127.0.0.1:9876"

NameServersOption = Annotated[
    str,
    typer.Option(
        "--name-servers", "-n", envvar="NAMESRV_ADDR", metavar="HOST:PORT[;HOST:PORT]", help="NameServers to ask."
    ),
]
SecurityOption = Annotated[
    Path | None,
    typer.Option(
        "--security", envvar="ORBITMQ_SECURITY", metavar="FILE", help="File with access key and TLS settings."
    ),
]
FormatOption = Annotated[Format, typer.Option("--output", "-o", help="table, or json for programs.")]
TimeoutOption = Annotated[int, typer.Option("--timeout-ms", min=1, help="Patience with each request.")]
LogLevelOption = Annotated[LogLevel, typer.Option("--log-level", help="From which severity on to log, on stderr.")]
HostOption = Annotated[str, typer.Option("--host", help="Address to listen on.")]
ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config", "-c", exists=True, dir_okay=False, metavar="FILE", help="Properties file with RocketMQ's own keys."
    ),
]
PORT_MAX = 65535
