"""Options of the commands that talk to servers, so that they are spelt and explained in one place."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orbitmq.cli.terminal.output import Format

DEFAULT_NAME_SERVERS = "127.0.0.1:9876"
DEFAULT_TIMEOUT_MS = 3_000

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

TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.")]
ClusterOption = Annotated[str | None, typer.Option("--cluster", help="Only this cluster's brokers.")]
BrokerOption = Annotated[str | None, typer.Option("--broker", help="Only the broker of this name.")]
