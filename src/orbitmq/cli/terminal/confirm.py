"""Questions before something is deleted or set elsewhere: on a terminal they are asked, everywhere else `--yes` has to answer them."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from orbitmq.cli.terminal.exits import ExitCode
from orbitmq.cli.terminal.output import say

YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do it without a question.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]


def is_terminal() -> bool:
    """Return True if a question can be asked, and answered."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def confirm(what: str, *, yes: bool, dry_run: bool = False) -> None:
    """Return when something may be done.

    Args:
        what: what is done, and what goes with it: "delete the topic orders with 120 messages in 8 queues".
        yes: it may be done without a question.

    Raises:
        typer.Exit: nothing is to be done: exit code 0 of a dry run, 1 of a no, 2 without `--yes` where no terminal is there to ask.
    """
    if dry_run:
        say(f"would {what}")
        raise typer.Exit(ExitCode.OK)
    if yes:
        return
    if not is_terminal():
        say(f"orbitmq: this would {what}: --yes does it, --dry-run only says so")
        raise typer.Exit(ExitCode.USAGE)
    if not typer.confirm(f"{what[:1].upper()}{what[1:]}?", err=True):
        say("nothing was done")
        raise typer.Exit(ExitCode.NO)


def counted(count: int, one: str, many: str = "") -> str:
    """Return a number with its noun: "1 message", "2 messages"."""
    return f"{count} {one if count == 1 else many or one + 's'}"
