"""`orbitmq store rebuild`: consume queues and checkpoint, rebuilt from the log."""

from __future__ import annotations

from typing import Annotated

import typer

from orbitmq.cli.store.options import BrokerConfigOption, DirectoryArgument, read_config, sizes_of
from orbitmq.cli.terminal.options import FormatOption
from orbitmq.cli.terminal.output import Format, say, show_json
from orbitmq.cli.terminal.progress import show_progress


def rebuild(
    directory: DirectoryArgument,
    topic: Annotated[
        list[str] | None, typer.Option("--topic", "-t", metavar="TOPIC", help="Only this topic's queues; repeatable.")
    ] = None,
    config: BrokerConfigOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Rebuild consume queues and checkpoint from the log of a stopped broker."""
    from orbitmq.model.delay_levels import DELAY_LEVELS
    from orbitmq.store.inspection.rebuild import rebuild_store

    settings = read_config(config)
    try:
        with show_progress("rebuilding") as progress:
            done = rebuild_store(
                directory,
                sizes_of(settings),
                topics=topic or None,
                delay_levels=DELAY_LEVELS if settings is None else settings.delay_levels,
                on_size=progress.expect,
                on_read=progress.advance,
            )
    except KeyboardInterrupt:
        say("interrupted: the next rebuild, or the broker's next start, begins again")
        raise
    if output is Format.JSON:
        show_json(done._asdict())
    else:
        say(f"rebuilt {done.queue_count} queues from {done.record_count} records")
        if done.unplaced_count:
            say(f"{done.unplaced_count} records are in no queue: their queue offsets are out of step")
        if done.damage_count:
            say(f"{done.damage_count} damaged places of the log were passed over; `orbitmq store check` names them")
