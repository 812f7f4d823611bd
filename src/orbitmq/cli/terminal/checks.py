"""The checks that long work makes of itself, shown at its end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import typer

from orbitmq.cli.terminal.exits import ExitCode
from orbitmq.cli.terminal.output import Format, say, show_json

if TYPE_CHECKING:
    from orbitmq.model.check_result import CheckResult


def show_checks(job: str, results: Sequence[CheckResult], output: Format, *, is_line: bool = False) -> None:
    """Show what was checked.

    Args:
        is_line: the JSON document is the last one of several lines.

    Raises:
        typer.Exit: a check does not hold.
    """
    if output is Format.JSON:
        show_json({"job": job, "checks": [result._asdict() for result in results]}, is_line=is_line)
    else:
        print_checks(results)
    failed = sum(not result.holds for result in results)
    say(f"{failed} of {len(results)} checks FAILED" if failed else f"all {len(results)} checks hold")
    if failed:
        raise typer.Exit(ExitCode.NO)


def print_checks(results: Iterable[tuple[bool, str]]) -> None:
    """Print claims, each with whether it holds."""
    from rich.console import Console

    console = Console(highlight=False)
    for holds, claim in results:
        console.print(f"  [green]ok[/]      {claim}" if holds else f"  [bold red]FAILED[/]  {claim}", soft_wrap=True)
