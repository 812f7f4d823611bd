"""`orbitmq mqadmin SUBCOMMAND ...`: runs one subcommand, prints help."""

from __future__ import annotations

import os
import shutil
from collections.abc import Awaitable, Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

import typer

from orbitmq.cli.mqadmin.table import SUBCOMMANDS, Subcommand
from orbitmq.cli.terminal.exits import ExitCode
from orbitmq.cli.terminal.output import say, show_json
from orbitmq.cli.terminal.printable import printable

if TYPE_CHECKING:
    from orbitmq.admin.cluster_clients import ClusterClients
    from orbitmq.cli.mqadmin.parsing import Given
    from orbitmq.cli.mqadmin.result import Result

CONTEXT_SETTINGS = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}
"""All words are taken here: mqadmin's options are not the command line's own."""
TIMEOUT_MS = 3_000


def mqadmin(context: typer.Context) -> None:
    """Run a subcommand of Java's mqadmin: `orbitmq mqadmin clusterList`; alone it lists them. --output json before its name for programs."""
    words = list(context.args)
    is_json = words[:2] == ["--output", "json"] or words[:2] == ["-o", "json"]
    if is_json:
        words = words[2:]
    if not words or words[0] in ("-h", "--help") or words == ["help"]:
        _show_list()
        return
    wants_help = words[0] == "help"
    name = words[1] if wants_help else words[0]
    found = SUBCOMMANDS.get(name) or next((one for one in SUBCOMMANDS.values() if one.alias == name), None)
    if found is None:
        raise typer.BadParameter(f"{name!r} is none: `orbitmq mqadmin` lists them", param_hint="subcommand")
    if wants_help:
        _show_help(found)
        return
    _run(found, words[1:], is_json=is_json)


def _run(subcommand: Subcommand, words: Sequence[str], *, is_json: bool) -> None:
    from orbitmq.cli.mqadmin.parsing import HELP, parse
    from orbitmq.net.loop import run

    given = parse(subcommand, words)
    if HELP.long in given:
        _show_help(subcommand)
        return
    if not subcommand.family:
        say(f"orbitmq: {subcommand.name} is not there: {subcommand.reason}")
        raise typer.Exit(ExitCode.NO)
    module = import_module(f"orbitmq.cli.mqadmin.{subcommand.family}")
    work: Callable[[ClusterClients, Given], Awaitable[Result]] = getattr(module, subcommand.function)
    problems = run(_work(work, given, is_json))
    if problems:
        raise typer.Exit(ExitCode.NO)


async def _work(
    work: Callable[[ClusterClients, Given], Awaitable[Result]], given: Given, is_json: bool
) -> Sequence[str]:
    import asyncio

    from orbitmq.admin.cluster_clients import ClusterClients
    from orbitmq.cli.mqadmin.parsing import NAME_SERVERS
    from orbitmq.cli.terminal.options import DEFAULT_NAME_SERVERS
    from orbitmq.net.security.client_security import load_security

    name_servers = given.text(NAME_SERVERS.long) or os.environ.get("NAMESRV_ADDR") or DEFAULT_NAME_SERVERS
    security = load_security(os.environ.get("ORBITMQ_SECURITY"))
    clients = ClusterClients(name_servers, "orbitmq-mqadmin", timeout_ms=TIMEOUT_MS, security=security)
    interval_s = given.number("interval", 0)
    try:
        while True:
            result = await work(clients, given)
            _show(result, is_json)
            if not interval_s:
                return result.problems
            await asyncio.sleep(interval_s)
    finally:
        await clients.close()


def _show(result: Result, is_json: bool) -> None:
    if is_json:
        show_json(dict(result.rows) if isinstance(result.rows, dict) else list(result.rows))
    else:
        for line in result.lines:
            print("\t".join(map(printable, line.split("\t"))))
    for notice in result.notices:
        say(printable(notice))
    for problem in result.problems:
        say(f"orbitmq: {printable(problem)}")


def _show_list() -> None:
    width = max(map(len, SUBCOMMANDS)) + 2
    print("Subcommands of Java's mqadmin 5.3.3, with its options and its output:")
    for name, one in SUBCOMMANDS.items():
        print(f"  {name:<{width}}{one.summary}{'' if one.family else '  (not there)'}")
    print(
        "\nSee `orbitmq mqadmin help SUBCOMMAND`; NameServers are named by -n or NAMESRV_ADDR, an access key by ORBITMQ_SECURITY."
    )


def _show_help(subcommand: Subcommand) -> None:
    usage = " ".join(option.usage for option in subcommand.options)
    print(f"Usage: orbitmq mqadmin {subcommand.name} [-n <namesrvAddr>] {usage}".rstrip())
    print(f"\n  {subcommand.summary}")
    if subcommand.one_of:
        print(f"\n  One of {', '.join(f'--{name}' for name in subcommand.one_of)} is needed.")
    print("\nOptions:")
    width = min(40, shutil.get_terminal_size().columns // 2)
    for option in subcommand.options:
        names = ", ".join(filter(None, (f"-{option.short}" if option.short else "", f"--{option.long}")))
        print(
            f"  {names + (' <value>' if option.has_value else ''):<{width}}{'required' if option.is_required else ''}".rstrip()
        )
    print("  -n, --namesrvAddr <value>\n  -h, --help")
