"""`orbitmq send`: messages from the command line, a file or a pipe."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from itertools import chain, islice, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orbitmq.cli.access import Access
from orbitmq.cli.messages.result_printer import ResultPrinter
from orbitmq.cli.messages.stdin import read_stdin
from orbitmq.cli.terminal.options import (
    FormatOption,
)
from orbitmq.cli.terminal.output import Format
from orbitmq.cli.terminal.times import DELAY_HELP, MOMENT_HELP, parse_delay, parse_moment

if TYPE_CHECKING:
    from orbitmq.client.producer import Producer
    from orbitmq.model.message import Message

IN_FLIGHT_MAX = 64


async def send(
    access: Access,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.")],
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
    )

    def message(content: bytes) -> Message:
        return replace(form, body=content)

    contents = _contents(body, file)
    printer = ResultPrinter(output, is_summary=count > 1 or (body is None and file is None))

    async with Producer(
        group, access.name_servers, send_timeout_ms=access.timeout_ms, **access.load_security()._asdict()
    ) as producer:
        await _send_all(contents, message, count, printer, producer)


def _contents(body: str | None, file: Path | None) -> AsyncIterator[list[bytes]]:
    if body is not None:
        return _only(os.fsencode(body))  # byte for byte, text or not
    return _only(file.read_bytes()) if file is not None else read_stdin()


async def _only(content: bytes) -> AsyncIterator[list[bytes]]:
    yield [content]


def _parse_property(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise typer.BadParameter(f"{text!r} is no NAME=VALUE", param_hint="--property")
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
