"""Options of the commands that talk to servers, so that they are spelt and explained in one place."""

from __future__ import annotations

from math import isnan
from pathlib import Path
from typing import Annotated, Literal

import typer

from orbitmq.cli.terminal.output import Format

DEFAULT_NAME_SERVERS = "127.0.0.1:9876"
DEFAULT_TIMEOUT_MS = 3_000
ForceSystemOption = Annotated[bool, typer.Option("--force", help="Also what RocketMQ keeps for itself.")]
ForceOption = Annotated[
    bool,
    typer.Option(
        "--force",
        help="Also topics of RocketMQ itself, and where messages would lie in queues that no consumer reads then.",
    ),
]


def _is_chosen(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name != "DEFAULT"


def _name_servers(context: typer.Context, value: str) -> str:
    """Return the context's NameServers where no others are named (`orbitmq context`)."""
    from orbitmq.cli.terminal import contexts

    if _is_chosen(context, "name_servers") or (found := contexts.current()) is None:
        return value
    return found.name_servers


def _security(context: typer.Context, value: Path | None) -> Path | None:
    """Return the context's security file where neither another one nor other NameServers are named."""
    from orbitmq.cli.terminal import contexts

    is_elsewhere = _is_chosen(context, "security") or _is_chosen(context, "name_servers")
    if is_elsewhere or (found := contexts.current()) is None or found.security is None:
        return value
    return Path(found.security)


def check_number(value: float) -> float:
    """Return a number; NaN, which is in every range, is none."""
    if isnan(value):
        raise typer.BadParameter("nan is not a number")
    return value


NameServersOption = Annotated[
    str,
    typer.Option(
        "--name-servers",
        "-n",
        envvar="NAMESRV_ADDR",
        metavar="HOST:PORT[;HOST:PORT]",
        help="NameServers to ask.",
        callback=_name_servers,
    ),
]
SecurityOption = Annotated[
    Path | None,
    typer.Option(
        "--security",
        envvar="ORBITMQ_SECURITY",
        metavar="FILE",
        help="File with access key and TLS settings.",
        callback=_security,
    ),
]
FormatOption = Annotated[Format, typer.Option("--output", "-o", help="table, or json for programs.")]
TimeoutOption = Annotated[int, typer.Option("--timeout-ms", min=1, help="Timeout of each request.")]


def _complete_topic(ctx: typer.Context, incomplete: str) -> list[str]:
    return _complete(ctx, "topic", incomplete)


def complete_group(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the groups whose names begin so, for a shell."""
    return _complete(ctx, "group", incomplete)


def _complete(context: typer.Context, kind: Literal["topic", "group"], begin: str) -> list[str]:
    from orbitmq.cli.terminal.names import complete

    given = context.params
    name_servers = _name_servers(context, given.get("name_servers") or DEFAULT_NAME_SERVERS)
    return complete(kind, name_servers, _security(context, given.get("security")), begin)


TopicArgument = Annotated[
    str, typer.Argument(metavar="TOPIC", help="The topic's name.", autocompletion=_complete_topic)
]
GroupArgument = Annotated[
    str, typer.Argument(metavar="GROUP", help="The consumer group.", autocompletion=complete_group)
]
SchemaOption = Annotated[
    str | None,
    typer.Option(
        "--schema",
        metavar="FILE",
        help="Decode bodies by a schema: orders.avsc (Avro), or orders.desc:shop.Order (Protobuf's descriptors, and a message's name).",
    ),
]
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
