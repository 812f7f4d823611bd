"""`orbitmq send`: messages from the command line, a file or a pipe."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from itertools import chain, islice, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orbitmq.cli.access import Access
from orbitmq.cli.terminal.confirm import confirm, is_terminal
from orbitmq.cli.terminal.options import FormatOption, TopicArgument
from orbitmq.cli.terminal.output import Format, say, show_json, show_rows
from orbitmq.cli.terminal.printable import printable
from orbitmq.cli.terminal.times import DELAY_HELP, MOMENT_HELP, parse_delay, parse_moment

if TYPE_CHECKING:
    from orbitmq.client.producer import Producer
    from orbitmq.client.send.result import SendResult
    from orbitmq.model.message import Message

COLUMNS = ("message_id", "broker", "queue", "offset", "status")
_HANDLE = "recall_handle"


class ResultPrinter:
    """Prints a table for one message, a summary for many, JSON lines for programs.

    Args:
        form: of the output.
        is_summary: say at the end how many there were, instead of a table.
    """

    def __init__(self, form: Format, is_summary: bool) -> None:
        self._form = form
        self._is_summary = is_summary
        self._started = time.monotonic()
        self.count = 0

    def show(self, results: Sequence[SendResult | BaseException]) -> None:
        """Print what was sent, then raise the first failure."""
        failures = [result for result in results if isinstance(result, BaseException)]
        rows = [_row(result) for result in results if not isinstance(result, BaseException)]
        self.count += len(rows)
        if self._form is Format.JSON:
            for row in rows:
                show_json(row, is_line=True)
        elif rows and not self._is_summary:
            columns = (*COLUMNS, _HANDLE) if any(_HANDLE in row for row in rows) else COLUMNS
            show_rows(rows, columns, self._form)
        if failures:
            raise failures[0]

    def finish(self) -> None:
        """Say how many there were."""
        if self._is_summary:
            say(f"sent {self.count} messages in {time.monotonic() - self._started:.2f} s")


def _row(result: SendResult) -> dict[str, Any]:
    row = {
        "message_id": result.message_id,
        "offset_message_id": result.offset_message_id,
        "topic": result.queue.topic,
        "broker": result.queue.broker_name,
        "queue": result.queue.queue_id,
        "offset": result.queue_offset,
        "status": str(getattr(result.status, "name", result.status)),
    }
    return row if result.recall_handle is None else {**row, _HANDLE: result.recall_handle}


READ_SIZE = 65_536


async def read_stdin() -> AsyncIterator[list[bytes]]:
    """Yield the lines of stdin as they come, those of one read together."""
    descriptor = sys.stdin.fileno()
    tail = b""
    while await _readable(descriptor) and (data := os.read(descriptor, READ_SIZE)):
        *lines, tail = (tail + data).split(b"\n")
        yield [line.removesuffix(b"\r") for line in lines]
    if tail:
        yield [tail]


async def _readable(descriptor: int) -> bool:
    """Wait for a terminal or a pipe without blocking the loop; a file is always readable."""
    import asyncio

    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    try:
        loop.add_reader(descriptor, ready.set)
    except OSError:
        return True
    try:
        return await ready.wait()
    finally:
        loop.remove_reader(descriptor)


IN_FLIGHT_MAX = 64


async def send(
    access: Access,
    topic: TopicArgument,
    body: Annotated[
        str | None, typer.Argument(metavar="[BODY]", help="The message; without it every line of stdin is one.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file", "-f", exists=True, dir_okay=False, metavar="FILE", help="Send a file's bytes as one message."
        ),
    ] = None,
    key: Annotated[list[str] | None, typer.Option("--key", "-k", help="A business key; may be repeated.")] = None,
    tag: Annotated[str | None, typer.Option("--tag", "-t", help="The message's tag.")] = None,
    properties: Annotated[
        list[str] | None, typer.Option("--property", "-p", metavar="NAME=VALUE", help="May be repeated.")
    ] = None,
    sharding_key: Annotated[
        str | None, typer.Option("--sharding-key", help="Messages of one key go to one queue, in order.")
    ] = None,
    priority: Annotated[
        int | None,
        typer.Option("--priority", min=0, help="0 is the lowest one; for topics with message.type=PRIORITY."),
    ] = None,
    delay: Annotated[
        str | None,
        typer.Option("--delay", metavar="TIME", help=f"Deliver it so long after the broker has it: {DELAY_HELP}"),
    ] = None,
    deliver_at: Annotated[
        str | None, typer.Option("--deliver-at", metavar="TIME", help=f"Deliver it then: {MOMENT_HELP}")
    ] = None,
    delay_level: Annotated[
        int | None,
        typer.Option("--delay-level", min=1, metavar="N", help="Deliver it after the broker's Nth delay level."),
    ] = None,
    count: Annotated[int, typer.Option("--count", min=1, help="Send each message so many times.")] = 1,
    group: Annotated[str, typer.Option("--group", "-g", help="The producer group.")] = "orbitmq-cli",
    output: FormatOption = Format.TABLE,
) -> None:
    """Send messages."""
    from orbitmq.client.producer import Producer
    from orbitmq.model.message import Message

    if body is not None and file is not None:
        raise typer.BadParameter("a body and a file exclude one another", param_hint="--file")
    named = dict(_parse_property(text) for text in properties or ())
    if sum(option is not None for option in (delay, deliver_at, delay_level)) > 1:
        raise typer.BadParameter("only one of --delay, --deliver-at and --delay-level", param_hint="--delay")
    form = Message(
        topic,
        b"",
        tag=tag,
        keys=tuple(key or ()),
        properties=named,
        sharding_key=sharding_key,
        delay_ms=0 if delay is None else parse_delay(delay, "--delay"),
        deliver_at=None if deliver_at is None else parse_moment(deliver_at, "--deliver-at"),
        delay_level=delay_level or 0,
        priority=priority,
    )

    def message(content: bytes) -> Message:
        return replace(form, body=content)

    await _check_name(access, topic)
    contents = _contents(body, file)
    printer = ResultPrinter(output, is_summary=count > 1 or (body is None and file is None))

    async with Producer(
        group, access.name_servers, send_timeout_ms=access.timeout_ms, **access.load_security()._asdict()
    ) as producer:
        await _send_all(contents, message, count, printer, producer)


async def _check_name(access: Access, topic: str) -> None:
    """Ask on a terminal before a topic is made whose name is nearly that of another one.

    Raises:
        typer.Exit: it is not to be made.
    """
    from orbitmq.cli.terminal.names import similar

    if is_terminal() and (meant := await similar(access.admin, "topic", topic)) is not None:
        confirm(f"make the topic {printable(topic)}, although there is {printable(meant)}", yes=False)


def _contents(body: str | None, file: Path | None) -> AsyncIterator[list[bytes]]:
    if body is not None:
        return _only(os.fsencode(body))  # byte for byte, text or not
    return _only(file.read_bytes()) if file is not None else read_stdin()


async def _only(content: bytes) -> AsyncIterator[list[bytes]]:
    yield [content]


def _parse_property(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--property")
    return name, value


async def _send_all(
    contents: AsyncIterator[list[bytes]],
    message: Callable[[bytes], Message],
    count: int,
    printer: ResultPrinter,
    producer: Producer,
) -> None:
    import asyncio

    try:
        async for group in contents:
            messages = chain.from_iterable(repeat(message(content), count) for content in group)
            while batch := list(islice(messages, IN_FLIGHT_MAX)):
                sends = asyncio.gather(*map(producer.send, batch), return_exceptions=True)
                try:
                    # What is under way when the command is told to end is finished, and told of.
                    await asyncio.shield(sends)
                finally:
                    printer.show(await sends)
    finally:
        printer.finish()
