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
TimeoutOption = Annotated[int, typer.Option("--timeout-ms", min=1, help="Timeout of each request.")]

TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.")]
ClusterOption = Annotated[str | None, typer.Option("--cluster", help="Only this cluster's brokers.")]
BrokerOption = Annotated[str | None, typer.Option("--broker", help="Only the broker of this name.")]


def parse_pairs(pairs: list[str], hint: str) -> dict[str, str]:
    """Return what `NAME=VALUE` words say.

    Args:
        hint: the argument or option that they stand behind; named in the error.

    Raises:
        typer.BadParameter: a word is none, or has a name again.
    """
    found: dict[str, str] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not (name and separator):
            raise typer.BadParameter(f"{pair!r} is not KEY=VALUE", param_hint=hint)
        if name in found:
            raise typer.BadParameter(f"{name!r} stands there twice", param_hint=hint)
        found[name] = value
    return found
