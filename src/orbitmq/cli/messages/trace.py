"""`orbitmq trace`: a message's way, as producers and consumers have told it: sent, stored, each consumption."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from orbitmq.cli.access import Access
from orbitmq.cli.terminal.exits import ExitCode
from orbitmq.cli.terminal.options import (
    FormatOption,
)
from orbitmq.cli.terminal.output import Format, format_time, say, show_json, show_rows
from orbitmq.cli.terminal.printable import printable

if TYPE_CHECKING:
    from orbitmq.admin.traces import TraceStep

_HOW_TO_TRACE = "Clients trace with `trace=True`, Java's with `setEnableTrace(true)`; brokers make the topic with `traceTopicEnable=true`"
_COLUMNS = ("step", "time", "ms", "group", "at", "status")


async def trace(
    access: Access,
    message_id: Annotated[
        str, typer.Argument(metavar="ID", help="The id that the message's producer gave it, or one of its keys.")
    ],
    topic: Annotated[
        str, typer.Option("--trace-topic", metavar="TOPIC", help="Where clients tell traces.")
    ] = "RMQ_SYS_TRACE_TOPIC",
    output: FormatOption = Format.TABLE,
) -> None:
    """Show a message's way through clients that trace. Exit code 1 when none has told of it, or a broker did not answer."""
    from orbitmq.admin.traces import find_way
    from orbitmq.errors import RouteNotFound

    try:
        async with access.admin() as admin:
            steps, notices, is_partial = await find_way(admin, topic, message_id)
    except RouteNotFound:
        say(f"no client traces here: there is no topic {printable(topic)}. {_HOW_TO_TRACE}")
        raise typer.Exit(ExitCode.NO) from None
    for notice in notices:
        say(printable(notice))
    if output is Format.JSON:
        show_json([_document(step) for step in steps])
    elif steps:
        show_rows([_row(step) for step in steps], _COLUMNS, output)
    if not steps:
        say(f"no client has told of such a message. {_HOW_TO_TRACE}")
    if is_partial or not steps:
        raise typer.Exit(ExitCode.NO)


def _document(step: TraceStep) -> dict[str, Any]:
    return {
        "step": step.name,
        "messageId": step.message_id,
        "topic": step.topic,
        "timeMs": step.at_ms or None,
        "costMs": step.cost_ms,
        "group": step.group,
        "at": step.place,
        "status": step.status,
    }


def _row(step: TraceStep) -> dict[str, Any]:
    return {
        "step": step.name,
        "time": format_time(step.at_ms) if step.at_ms else None,
        "ms": step.cost_ms,
        "group": printable(step.group or "", is_cell=True),
        "at": printable(step.place, is_cell=True),
        "status": printable(step.status, is_cell=True),
    }
