"""`orbitmq message …`: single messages, found by key or id, sent again, or taken back."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from orbitmq.cli.access import Access, command
from orbitmq.cli.terminal.exits import ExitCode
from orbitmq.cli.terminal.options import SchemaOption, TopicArgument
from orbitmq.cli.terminal.output import Format, format_time, say, show_rows
from orbitmq.cli.terminal.printable import printable
from orbitmq.cli.terminal.times import TIME_HELP, parse_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from orbitmq.body_schemas import Schema
    from orbitmq.model.message import StoredMessage

app = typer.Typer(
    help="Find messages by key or id, send them again; take delayed ones back.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

OutputOption = Annotated[
    Format, typer.Option("--output", "-o", help="table, or json: one object a line, with properties and body.")
]
_COLUMNS = ("id", "broker", "queue", "offset", "stored", "tag", "keys")


@command(app, "find")
async def find(
    access: Access,
    topic: TopicArgument,
    key: Annotated[str, typer.Argument(metavar="KEY", help="One of the message's keys, or its id.")],
    count: Annotated[int, typer.Option("--count", "-c", min=1, help="At most so many in all, the newest.")] = 64,
    begin: Annotated[
        str, typer.Option("--from", metavar="TIME", help=f"Stored at this time or later: {TIME_HELP}")
    ] = "0",
    end: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="Stored at this time or earlier, written as with --from.")
    ] = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Find the messages of a key. Exit code 1 when there is none, or a broker did not answer: the others' are shown."""
    begin_ms = parse_time(begin, "--from")
    end_ms = None if end is None else parse_time(end, "--to")

    async with access.admin() as admin:
        found = await admin.messages_by_key(topic, key, count_max=count, begin_ms=begin_ms, end_ms=end_ms)
    for notice in found.notices:
        say(printable(notice))
    _show(found.messages, output)
    if found.silent:
        raise typer.Exit(ExitCode.NO)


@command(app, "show", earlier="get")
async def show(
    access: Access,
    topic: TopicArgument,
    message_id: Annotated[str, typer.Argument(metavar="ID", help="The id that its client gave it, or its broker.")],
    output: OutputOption = Format.JSON,
    schema: SchemaOption = None,
) -> None:
    """Show one message by its id. Exit code 1 when there is none."""
    from orbitmq.body_schemas import load_schema

    decode = load_schema(schema)
    async with access.admin() as admin:
        found = await admin.message_by_id(topic, message_id)
    _show([] if found is None else [found], output, decode)


@command(app, "resend")
async def resend(
    access: Access,
    topic: TopicArgument,
    message_id: Annotated[str, typer.Argument(metavar="ID", help="The id that its client gave it, or its broker.")],
    to: Annotated[str | None, typer.Option("--to", metavar="TOPIC", help="Send it to this topic instead.")] = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Send a message again as a new one, for every group that reads the topic. Exit code 1 when there is none."""
    from orbitmq.admin.dead_letters import DeadLetter
    from orbitmq.client.producer import Producer

    async with access.admin() as admin:
        found = await admin.message_by_id(topic, message_id)
    if found is None:
        say("there is no such message")
        raise typer.Exit(ExitCode.NO)
    async with Producer("orbitmq-cli", access.name_servers, **access.load_security()._asdict()) as producer:
        sent = await producer.send(DeadLetter(found).again(to or topic), timeout_ms=access.timeout_ms)
    row = {
        "id": sent.message_id,
        "topic": sent.queue.topic,
        "broker": sent.queue.broker_name,
        "queue": sent.queue.queue_id,
        "offset": sent.queue_offset,
    }
    show_rows([row], ("id", "topic", "broker", "queue", "offset"), output)


@command(app, "recall")
async def recall(
    access: Access,
    handle: Annotated[str, typer.Argument(metavar="HANDLE", help="What `orbitmq send --delay` printed last.")],
) -> None:
    """Take a delayed message back before its time, and print its id. Exit code 1 when it is too late."""
    from orbitmq.client.producer import Producer

    async with Producer("orbitmq-cli", access.name_servers, **access.load_security()._asdict()) as producer:
        message_id = await producer.recall(handle, timeout_ms=access.timeout_ms)
    print(printable(message_id))


def _show(messages: Sequence[StoredMessage], output: Format, schema: Schema | None = None) -> None:
    if output is Format.JSON:
        from orbitmq.cli.messages.message_format import format_json_line

        for message in messages:
            sys.stdout.buffer.write(format_json_line(message, schema))
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
