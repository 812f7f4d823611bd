"""`orbitmq context …`: name clusters, and choose the one that commands ask."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from orbitmq.cli.terminal.contexts import VARIABLE, Context, Contexts, load, save
from orbitmq.cli.terminal.exits import ExitCode
from orbitmq.cli.terminal.options import FormatOption
from orbitmq.cli.terminal.output import Format, say, show_rows

app = typer.Typer(
    help="Name clusters, and choose the one that commands ask.", no_args_is_help=True, rich_markup_mode=None
)
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The context's name.")]


@app.command("list")
def list_contexts(output: FormatOption = Format.TABLE) -> None:
    """List the contexts; the one in use has a star."""
    contexts = load()
    rows = [
        {
            "current": "*" if name == (os.environ.get(VARIABLE) or contexts.current) else "",
            "name": name,
            "name_servers": found.name_servers,
            "security": found.security,
        }
        for name, found in sorted(contexts.known.items())
    ]
    show_rows(rows, ("current", "name", "name_servers", "security"), output)


@app.command("set")
def set_context(
    name: NameArgument,
    name_servers: Annotated[
        str, typer.Option("--name-servers", "-n", metavar="HOST:PORT[;HOST:PORT]", help="Its NameServers.")
    ],
    security: Annotated[Path | None, typer.Option("--security", metavar="FILE", help="Its access key and TLS.")] = None,
) -> None:
    """Add a context, or change it; the first one is in use from then on."""
    from orbitmq.address import parse_name_servers

    contexts = load()
    found = Context(";".join(parse_name_servers(name_servers)), None if security is None else str(security.absolute()))
    save(Contexts(contexts.current or name, contexts.known | {name: found}))


@app.command("use")
def use(name: NameArgument) -> None:
    """Let commands ask this cluster. Exit code 1 when there is none of the name."""
    contexts = load()
    _check(contexts, name)
    save(contexts._replace(current=name))


@app.command("delete")
def delete(name: NameArgument) -> None:
    """Forget a context. Exit code 1 when there is none of the name."""
    contexts = load()
    _check(contexts, name)
    known = {other: found for other, found in contexts.known.items() if other != name}
    save(Contexts(None if contexts.current == name else contexts.current, known))


def _check(contexts: Contexts, name: str) -> None:
    if name not in contexts.known:
        say(
            f"orbitmq: there is no context {name!r}: {', '.join(sorted(contexts.known)) or '`orbitmq context set` adds one'}"
        )
        raise typer.Exit(ExitCode.NO)
