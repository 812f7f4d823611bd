"""`orbitmq job dead-letters`: what a group could not process, inspected, or fixed and sent again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from orbitmq.cli.jobs.running import (
    DEFAULT_MASTER,
    ConfOption,
    MasterOption,
    SkipRefusedOption,
    check_packages,
    run_job,
)
from orbitmq.cli.terminal.options import (
    DEFAULT_NAME_SERVERS,
    FormatOption,
    GroupArgument,
    NameServersOption,
    SecurityOption,
)
from orbitmq.cli.terminal.output import Format


def dead_letters(
    group: GroupArgument,
    directory: Annotated[
        Path | None, typer.Argument(metavar="[DIRECTORY]", help="For --fix: a new one, or one of an earlier run.")
    ] = None,
    inspect: Annotated[bool, typer.Option("--inspect", help="Show which letters there are, and send none.")] = False,
    fix: Annotated[
        str | None,
        typer.Option(
            "--fix",
            metavar="MODULE:FUNCTION",
            help="Gets body and properties; returns the body to send, or None. Found as Python finds modules, or here.",
        ),
    ] = None,
    quarantine: Annotated[
        str | None, typer.Option("--quarantine", metavar="TOPIC", help="For --fix: where hopeless letters go.")
    ] = None,
    quarantine_gone: Annotated[
        bool,
        typer.Option(
            "--quarantine-gone", help="Letters whose topic does not exist go there, too; else they end the job."
        ),
    ] = False,
    rate: Annotated[int, typer.Option("--rate", min=1, help="Messages in a second, at most.")] = 1_000,
    rows_per_checkpoint: Annotated[
        int, typer.Option("--rows-per-checkpoint", min=1, help="Letters from one checkpoint to the next.")
    ] = 1_000,
    skip_refused: SkipRefusedOption = False,
    master: MasterOption = DEFAULT_MASTER,
    conf: ConfOption = None,
    name_servers: NameServersOption = DEFAULT_NAME_SERVERS,
    security: SecurityOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Show a group's dead letters, or let a function fix them and send them to their topics again, once each.

    Letters that it gives up go to a quarantine topic, with the reason. Killed and started again it goes on where it was.
    Exit code 1 when a check of its own work fails; letters in quarantine are no failure.
    """
    if inspect == (fix is not None):
        raise typer.BadParameter("one of --inspect and --fix is needed")

    check_packages()
    from orbitmq.spark.jobs.dead_letters import FixPlan, check_plan, find_letters, fix_letters, inspect_letters

    if fix is None:
        run_job("dead-letters", group, find_letters, inspect_letters, name_servers, security, master, conf, output)
        return
    if directory is None or quarantine is None:
        raise typer.BadParameter("--fix needs a DIRECTORY and --quarantine")
    from orbitmq.spark.jobs.fix_functions import load_fix

    sys.path.insert(0, str(Path.cwd()))  # as `python -m` has it
    plan = FixPlan(
        group,
        load_fix(fix),
        fix,
        quarantine,
        directory.resolve(),
        rate,
        rows_per_checkpoint,
        quarantine_gone,
        skip_refused,
    )
    run_job("dead-letters", plan, check_plan, fix_letters, name_servers, security, master, conf, output)
