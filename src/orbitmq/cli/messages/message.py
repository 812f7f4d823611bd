"""`orbitmq message …`: single messages, found by key or id, sent again, or taken back."""

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
    TopicArgument,
)
from orbitmq.cli.terminal.output import Format, format_time, say, show_rows
from orbitmq.cli.terminal.printable import printable
from orbitmq.cli.terminal.times import TIME_HELP, parse_time

if TYPE_CHECKING:
    from orbitmq.client.send.result import SendResult
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


@app.command("find")
def find(
    topic: TopicArgument,
    key: Annotated[str, typer.Argument(metavar="KEY", help="One of the message's keys, or its id.")],
    count: Annotated[
        int, typer.Option("--count", "-c", min=1, help="At most so many of each broker, the newest.")
    ] = 64,
    begin: Annotated[
        str, typer.Option("--from", metavar="TIME", help=f"Stored at this time or later: {TIME_HELP}")
    ] = "0",
    end: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="Stored at this time or earlier, written as with --from.")
    ] = None,
    name_servers: NameServersOption = DEFAULT_NAME_SERVERS,
    security: SecurityOption = None,
    output: OutputOption = Format.TABLE,
    timeout_ms: TimeoutOption = DEFAULT_TIMEOUT_MS,
) -> None:
    """Find the messages of a key. Exit code 1 when there is none."""
    from orbitmq.net.loop import run

    begin_ms = parse_time(begin, "--from")
    end_ms = None if end is None else parse_time(end, "--to")

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


@app.command("get")
def get(
    topic: TopicArgument,
    message_id: Annotated[str, typer.Argument(metavar="ID", help="The id that its client gave it, or its broker.")],
    name_servers: NameServersOption = DEFAULT_NAME_SERVERS,
    security: SecurityOption = None,
    output: OutputOption = Format.JSON,
    timeout_ms: TimeoutOption = DEFAULT_TIMEOUT_MS,
) -> None:
    """Show one message by its id, as `show` does."""
    show(topic, message_id, name_servers, security, output, timeout_ms)


@app.command("resend")
def resend(
    topic: TopicArgument,
    message_id: Annotated[str, typer.Argument(metavar="ID", help="The id that its client gave it, or its broker.")],
    to: Annotated[str | None, typer.Option("--to", metavar="TOPIC", help="Send it to this topic instead.")] = None,
    name_servers: NameServersOption = DEFAULT_NAME_SERVERS,
    security: SecurityOption = None,
    output: OutputOption = Format.TABLE,
    timeout_ms: TimeoutOption = DEFAULT_TIMEOUT_MS,
) -> None:
    """Send a message again as a new one, for every group that reads the topic. Exit code 1 when there is none."""
    from orbitmq.admin.dead_letters import DeadLetter
    from orbitmq.client.producer import Producer
    from orbitmq.net.loop import run
    from orbitmq.net.security.client_security import load_security

    async def work() -> SendResult | None:
        async with admin_client(name_servers, timeout_ms, security) as admin:
            found = await admin.message_by_id(topic, message_id)
        if found is None:
            return None
        async with Producer("orbitmq-cli", name_servers, **load_security(security)._asdict()) as producer:
            return await producer.send(DeadLetter(found).again(to or topic), timeout_ms=timeout_ms)

    sent = run(work())
    if sent is None:
        say("there is no such message")
        raise typer.Exit(ExitCode.NO)
    row = {
        "id": sent.message_id,
        "topic": sent.queue.topic,
        "broker": sent.queue.broker_name,
        "queue": sent.queue.queue_id,
        "offset": sent.queue_offset,
    }
    show_rows([row], ("id", "topic", "broker", "queue", "offset"), output)


@app.command("recall")
def recall(
    handle: Annotated[str, typer.Argument(metavar="HANDLE", help="What `orbitmq send --delay` printed last.")],
    name_servers: NameServersOption = DEFAULT_NAME_SERVERS,
    security: SecurityOption = None,
    timeout_ms: TimeoutOption = DEFAULT_TIMEOUT_MS,
) -> None:
    """Take a delayed message back before its time, and print its id. Exit code 1 when it is too late."""
    from orbitmq.client.producer import Producer
    from orbitmq.net.loop import run
    from orbitmq.net.security.client_security import load_security

    async def work() -> str:
        async with Producer("orbitmq-cli", name_servers, **load_security(security)._asdict()) as producer:
            return await producer.recall(handle, timeout_ms=timeout_ms)

    print(printable(run(work())))


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
