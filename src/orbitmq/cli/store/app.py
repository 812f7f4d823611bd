"""The commands of `orbitmq store`, put together."""

from __future__ import annotations

import typer

from orbitmq.cli.store.check import check
from orbitmq.cli.store.dump import dump
from orbitmq.cli.store.rebuild import rebuild
from orbitmq.cli.store.salvage import salvage

app = typer.Typer(
    help="Check and read the files of a broker, and repair them while it is stopped.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.command()(check)
app.command()(dump)
app.command()(rebuild)
app.command()(salvage)
