"""The commands of `orbitmq job`, put together."""

from __future__ import annotations

import typer

from orbitmq.cli.jobs.archive import archive
from orbitmq.cli.jobs.contracts import contracts
from orbitmq.cli.jobs.dead_letters import dead_letters
from orbitmq.cli.jobs.replay import replay
from orbitmq.cli.jobs.trace import trace
from orbitmq.cli.other_words import NamingGroup

OTHER_WORDS = {"lag": "group lag GROUP --topic TOPIC --watch --to DIRECTORY", "alerts": "alerts TOPIC"}
"""Jobs that need no Spark, and became commands of their own."""


class _Jobs(NamingGroup):
    other_words = OTHER_WORDS


app = typer.Typer(
    cls=_Jobs,
    help="Jobs on topics that Spark runs: each can be killed and started again, and checks its work at the end.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.callback()
def _several() -> None:
    """Keep typer from taking an only command for the whole."""


app.command("archive")(archive)
app.command("contracts")(contracts)
app.command("replay")(replay)
app.command("dead-letters")(dead_letters)
app.command("trace")(trace)
