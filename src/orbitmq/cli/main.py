"""The command `orbitmq`: what there is, and how errors become one sentence and an exit code.

Start-up counts here: the modules of the commands import nothing heavy at the top, only inside the functions that run.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from orbitmq.cli import broker, cluster, consume, health, nameserver, route, send, topic, up
from orbitmq.cli.exits import EXIT_CODES_HELP, ExitCode, exit_code_of, explain
from orbitmq.errors import OrbitError

app = typer.Typer(
    name="orbitmq",
    help="RocketMQ for Python people: NameServer, broker, and tools for any RocketMQ cluster.",
    epilog=EXIT_CODES_HELP,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("up")(up.up)
app.command("nameserver")(nameserver.nameserver)
app.command("broker")(broker.broker)
app.add_typer(topic.app, name="topic")
app.add_typer(route.app, name="route")
app.command("send")(send.send)
app.command("consume")(consume.consume)
app.command("cluster")(cluster.cluster)
app.command("health")(health.health)


def _show_version(is_asked: bool) -> None:
    if is_asked:
        from importlib.metadata import version

        print(f"orbitmq {version('orbitmq')}")
        raise typer.Exit


@app.callback()
def _global_options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; `arguments` are the command line's where none are given."""
    try:
        app(list(arguments) if arguments is not None else None, prog_name="orbitmq")
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):
            return ExitCode.OK  # the reader of our pipe has seen enough: typer calls that 1, we call it done
        return end.code if isinstance(end.code, int) else ExitCode.OK
    except (OrbitError, OSError, KeyboardInterrupt) as error:
        if not isinstance(error, KeyboardInterrupt):
            print(f"orbitmq: {explain(error)}", file=sys.stderr)
        return exit_code_of(error)
    return ExitCode.OK
