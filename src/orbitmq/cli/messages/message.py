"""`orbitmq message …`: single messages by key or id."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from orbitmq.cli.access import admin_client
from orbitmq.cli.terminal.exits import ExitCode
from orbitmq.cli.terminal.options import (
    DEFAULT_NAME_SERVERS,
    DEFAULT_TIMEOUT_MS,
    NameServersOption,
    SecurityOption,
    TimeoutOption,
)
from orbitmq.cli.terminal.output import Format, format_time, say, show_rows
from orbitmq.cli.terminal.printable import printable

if TYPE_CHECKING:
    from orbitmq.model.message import StoredMessage

app = typer.Typer(help="Find messages by key or id.", no_args_is_help=True, rich_markup_mode=None)

TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.")]
OutputOption = Annotated[
    Format, typer.Option("--output", "-o", help="table, or json: one object a line, with properties and body.")
]
_COLUMNS = ("id", "broker", "queue", "offset", "stored", "tag", "keys")


@app.command("find")
def find(
    topic: TopicArgument,
    key: Annotated[str, typer.Argument(metavar="KEY", help="One of the message's keys, or its id.")],
    count: Annotated[
        int, typer.Option("--count", "-c", min=1, help="At most so many of each broker, the newest.")
    ] = 64,
    begin_ms: Annotated[int, typer.Option("--from", min=0, metavar="MS", help="Stored at this time or later.")] = 0,
    end_ms: Annotated[
        int | None, typer.Option("--to", min=0, metavar="MS", help="Stored at this time or earlier.")
    ] = None,
    name_servers: NameServersOption = DEFAULT_NAME_SERVERS,
    security: SecurityOption = None,
    output: OutputOption = Format.TABLE,
    timeout_ms: TimeoutOption = DEFAULT_TIMEOUT_MS,
) -> None:
    """Find the messages of a key. Exit code 1 when there is none."""
    from orbitmq.net.loop import run

    async def work() -> list[StoredMessage]:
        async with admin_client(name_servers, timeout_ms, security) as admin:
            return await admin.messages_by_key(topic, key, count_max=count, begin_ms=begin_ms, end_ms=end_ms)

    _show(run(work()), output)


@app.command("show")
def show(
    topic: TopicArgument,
    message_id: Annotated[str, typer.Argument(metavar="ID", help="The id that its client gave it, or its broker.")],
    name_servers: NameServersOption = DEFAULT_NAME_SERVERS,
    security: SecurityOption = None,
    output: OutputOption = Format.JSON,
    timeout_ms: TimeoutOption = DEFAULT_TIMEOUT_MS,
) -> None:
    """Show one message by its id. Exit code 1 when there is none."""
    from orbitmq.net.loop import run

    async def work() -> list[StoredMessage]:
        async with admin_client(name_servers, timeout_ms, security) as admin:
            found = await admin.message_by_id(topic, message_id)
        return [] if found is None else [found]

    _show(run(work()), output)


def _show(messages: list[StoredMessage], output: Format) -> None:
    if output is Format.JSON:
        from orbitmq.cli.messages.message_format import format_json_line

        for message in messages:
            sys.stdout.buffer.write(format_json_line(message))
        sys.stdout.flush()
    elif messages:
        rows = [
            {
                "id": printable(message.message_id),
                "broker": message.broker_name,
                "queue": message.queue_id,
                "offset": message.queue_offset,
                "stored": format_time(message.stored_at_ms),
                "tag": printable(message.tag or ""),
                "keys": printable(" ".join(message.keys)),
            }
            for message in messages
        ]
        show_rows(rows, _COLUMNS, output)
    if not messages:
        say("there is no such message")
        raise typer.Exit(ExitCode.NO)
