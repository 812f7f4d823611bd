"""The command `orbitmq`: its subcommands, and how errors become one line and an exit code.

Start-up counts here: the modules of the commands import nothing heavy at the top, only inside the functions that run.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Annotated, Any

import typer

from orbitmq.cli.access import command
from orbitmq.cli.other_words import NamingGroup
from orbitmq.cli.terminal.exits import EXIT_CODES_HELP, ExitCode, NameServerExit, exit_code_of, explain
from orbitmq.errors import OrbitError
from orbitmq.process.interrupts import finishing_on_termination

SECTIONS = {
    "Messages": {
        "send": "orbitmq.cli.messages.send",
        "consume": "orbitmq.cli.messages.consume",
        "message": "orbitmq.cli.messages.message",
        "trace": "orbitmq.cli.messages.trace",
        "settle": "orbitmq.cli.messages.settle",
        "dlq": "orbitmq.cli.dlq",
    },
    "Topics, groups and users": {
        "topic": "orbitmq.cli.topic",
        "group": "orbitmq.cli.group",
        "route": "orbitmq.cli.route",
        "user": "orbitmq.cli.user",
        "acl": "orbitmq.cli.acl",
    },
    "The cluster": {
        "cluster": "orbitmq.cli.cluster",
        "health": "orbitmq.cli.health",
        "doctor": "orbitmq.cli.doctor",
        "stats": "orbitmq.cli.brokers.stats",
        "top": "orbitmq.cli.top",
        "alerts": "orbitmq.cli.alerts",
        "context": "orbitmq.cli.context",
    },
    "Servers": {
        "up": "orbitmq.cli.servers.up",
        "nameserver": "orbitmq.cli.servers.nameserver",
        "broker": "orbitmq.cli.servers.broker",
        "controller": "orbitmq.cli.servers.controller",
        "dashboard": "orbitmq.cli.servers.dashboard",
        "exporter": "orbitmq.cli.servers.exporter",
        "mcp": "orbitmq.cli.servers.mcp",
    },
    "Data": {
        "job": "orbitmq.cli.jobs.app",
        "backup": "orbitmq.cli.backup",
        "restore": "orbitmq.cli.restore",
        "store": "orbitmq.cli.store.app",
    },
    "Tools": {
        "mqadmin": "orbitmq.cli.mqadmin.app",
        "bench": "orbitmq.cli.bench",
        "debug": "orbitmq.cli.debug",
    },
}
"""The commands, as the help has them, and where each lives: as a function of its own name, or as an `app` of several."""
COMMANDS = {name: module for section in SECTIONS.values() for name, module in section.items()}


OTHER_WORDS = {
    **dict.fromkeys(("produce", "pub", "publish", "put"), "send"),
    **dict.fromkeys(("sub", "subscribe", "cat", "read", "tail", "get"), "consume"),
    **dict.fromkeys(("server", "start", "standalone", "dev"), "up"),
    **dict.fromkeys(("namesrv", "mqnamesrv", "ns"), "nameserver"),
    **dict.fromkeys(("mqbroker",), "broker"),
    **dict.fromkeys(("lag", "groups", "consumer", "consumers"), "group lag"),
    **dict.fromkeys(("topics", "ls", "list"), "topic list"),
    **dict.fromkeys(("brokers", "nodes", "clusterList", "info"), "cluster"),
    **dict.fromkeys(("routes", "topicRoute"), "route"),
    **dict.fromkeys(("check", "diagnose", "status"), "doctor"),
    **dict.fromkeys(("deadletters", "dead-letters"), "dlq"),
    **dict.fromkeys(("users",), "user"),
    **dict.fromkeys(("acls",), "acl"),
    **dict.fromkeys(("metrics",), "exporter"),
    **dict.fromkeys(("export", "snapshot"), "backup"),
    **dict.fromkeys(("import",), "restore"),
    **dict.fromkeys(("ui", "console", "web"), "dashboard"),
}
"""What rpk, nats, kcat, Kafka's and Java's tools call a command, and what it is called here."""


class _Commands(NamingGroup):
    other_words = OTHER_WORDS

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands in sections."""
        for title, names in SECTIONS.items():
            found = [name for name in names if name in self.commands]
            width = formatter.width - 6 - max(map(len, COMMANDS))
            with formatter.section(title):
                formatter.write_dl([(name, self.commands[name].get_short_help_str(width)) for name in found])


def make_app(commands: Iterable[str] = COMMANDS) -> typer.Typer:
    """Return the command line with these commands."""
    app = typer.Typer(
        name="orbitmq",
        cls=_Commands,
        help="RocketMQ for Python people: NameServer, broker, and tools for any RocketMQ cluster.",
        epilog=EXIT_CODES_HELP,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_global_options)
    for name in commands:
        module = import_module(COMMANDS[name])
        if hasattr(module, "app"):
            app.add_typer(module.app, name=name)
        elif hasattr(module, "CONTEXT_SETTINGS"):  # it reads its words itself
            app.command(name, context_settings=module.CONTEXT_SETTINGS)(getattr(module, name))
        else:
            command(app, name)(getattr(module, name))
    return app


def _show_version(is_asked: bool) -> None:
    if is_asked:
        from importlib.metadata import version

        print(f"orbitmq {version('orbitmq')}")
        raise typer.Exit


def _global_options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    map_address: Annotated[
        list[str] | None,
        typer.Option(
            "--map-address",
            metavar="ANNOUNCED=REACHED",
            help="Where a broker's address is reached, as out of a container.  [env var: ORBITMQ_MAP_ADDRESS]",
        ),
    ] = None,
) -> None:
    if map_address:
        from orbitmq.net.address_map import VARIABLE, parse_map

        os.environ[VARIABLE] = ";".join(map_address)  # processes that a command starts have it, too
        parse_map(os.environ[VARIABLE])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; `arguments` are the command line's where none are given."""
    _open_standard_files()
    given = sys.argv[1:] if arguments is None else list(arguments)
    # The other commands would cost a server a tenth of its start-up.
    app = make_app(given[:1] if given[:1] and given[0] in COMMANDS else COMMANDS)
    ends_as_java = given[:1] == ["nameserver"]
    usage = NameServerExit.ARGUMENTS if ends_as_java else ExitCode.USAGE
    try:
        with finishing_on_termination():  # containers end their programs with SIGTERM: what is under way is finished
            app(given, prog_name="orbitmq")
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):
            return ExitCode.OK  # the reader of our pipe has seen enough: typer calls that 1, we call it done
        code = end.code if isinstance(end.code, int) else ExitCode.OK
        return usage if code == ExitCode.USAGE else code
    except (OrbitError, OSError, KeyboardInterrupt) as error:
        if not isinstance(error, KeyboardInterrupt):
            print(f"orbitmq: {explain(error)}", file=sys.stderr)
            if ends_as_java:
                return NameServerExit.FAILED
        return exit_code_of(error)
    except (UnicodeEncodeError, TypeError):  # orjson's word for text that cannot be encoded is TypeError
        strange = [word for word in given if _is_no_text(word)]
        if not strange:
            raise
        print(
            f"orbitmq: {strange[0]!r} is not allowed, expected text in {sys.getfilesystemencoding()}", file=sys.stderr
        )
        return usage
    return ExitCode.OK


def _open_standard_files() -> None:
    """Open /dev/null where the caller has closed stdin, stdout or stderr: the next socket would get its number."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)
    os.close(number)
    sys.stdin = sys.stdin or os.fdopen(0)
    sys.stdout = sys.stdout or os.fdopen(1, "w")
    sys.stderr = sys.stderr or os.fdopen(2, "w")


def _is_no_text(word: str) -> bool:
    """Whether the shell gave bytes that mean nothing in its encoding; Python keeps such bytes as lone surrogates."""
    return any("\ud800" <= letter <= "\udfff" for letter in word)
