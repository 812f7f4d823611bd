"""`orbitmq consume`: messages to the terminal, to a file or into a pipe."""

from __future__ import annotations

import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from orbitmq.cli.terminal.exits import explain
from orbitmq.cli.terminal.options import (
    DEFAULT_NAME_SERVERS,
    NameServersOption,
    SchemaOption,
    SecurityOption,
    TopicArgument,
)
from orbitmq.cli.terminal.output import Format, say
from orbitmq.cli.terminal.times import TIME_HELP, parse_time
from orbitmq.errors import ClientError
from orbitmq.model.group import TOOLS_GROUP

if TYPE_CHECKING:
    from orbitmq.cli.messages.message_format import Formatter
    from orbitmq.client.pull_consumer import PullConsumer
    from orbitmq.model.message import StoredMessage
    from orbitmq.model.route import MessageQueue

POLL_TIMEOUT_MS = 100
POLL_COUNT_MAX = 1_000
COMMIT_INTERVAL_S = 5.0


def consume(
    topic: TopicArgument,
    start: Annotated[
        str,
        typer.Option("--from", metavar="WHERE", help=f"earliest, latest, or {TIME_HELP}"),
    ] = "earliest",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more; Ctrl-C ends.")] = False,
    count: Annotated[
        int | None, typer.Option("--count", "-c", min=1, help="Stop after so many; exit code 1 when there are fewer.")
    ] = None,
    tag: Annotated[str, typer.Option("--tag", "-t", help="One tag, or several: 'A || B'.")] = "*",
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            "-g",
            help="Go on where this group is, and store what was read. Reads all queues, joins no other consumer.",
        ),
    ] = None,
    template: Annotated[
        str,
        typer.Option(
            "--format",
            "-F",
            help="%s body, %k keys, %g tag, %p properties, %t topic, %b broker, %q queue, %o offset, %T stored at, "
            "%i message id; \\n, \\t and \\x20.",
        ),
    ] = r"%s\n",
    name_servers: NameServersOption = DEFAULT_NAME_SERVERS,
    security: SecurityOption = None,
    schema: SchemaOption = None,
    output: Annotated[Format, typer.Option("--output", "-o", help="table, or json: one object a line.")] = Format.TABLE,
) -> None:
    """Print a topic's messages: those that are there, or with --follow those to come, too."""
    from orbitmq.body_schemas import load_schema
    from orbitmq.cli.messages.message_format import format_json_line, parse_template
    from orbitmq.client.pull_consumer import PullConsumer
    from orbitmq.net.loop import run
    from orbitmq.net.security.client_security import load_security

    decode = load_schema(schema)
    formatter = partial(format_json_line, schema=decode) if output is Format.JSON else parse_template(template, decode)
    since_ms = parse_start(start)

    async def work() -> int:
        async with PullConsumer(
            group or TOOLS_GROUP, name_servers, tag=tag, **load_security(security)._asdict()
        ) as consumer:
            ends = await _begin(consumer, topic, since_ms, is_group=group is not None)
            return await _copy(consumer, {} if follow else ends, formatter, count, is_group=group is not None)

    try:
        written = run(work())
    except KeyboardInterrupt:
        if not follow:
            raise
        return
    if count is not None and written < count:
        say(f"orbitmq: {written} of {count} messages were there")
        raise typer.Exit(1)


def parse_start(text: str) -> int | None:
    """Return milliseconds since 1970; 0 for the earliest message, None for behind the latest."""
    if text in ("earliest", "latest"):
        return 0 if text == "earliest" else None
    return parse_time(text, "--from", words="earliest, latest, ")


async def _begin(
    consumer: PullConsumer, topic: str, since_ms: int | None, *, is_group: bool
) -> dict[MessageQueue, int]:
    """Put every queue where reading begins; return where each one ends now."""
    queues = await consumer.queues(topic)
    ranges = await consumer.offsets(queues)
    consumer.assign(queues)
    for queue in queues:
        offset = await consumer.committed(queue) if is_group else None
        if offset is None and since_ms is None:
            offset = ranges[queue].end
        elif offset is None:
            offset = await consumer.offset_at(queue, since_ms) if since_ms else ranges[queue].begin
        consumer.seek(queue, offset)
    return {queue: found.end for queue, found in ranges.items()}


async def _copy(
    consumer: PullConsumer, ends: dict[MessageQueue, int], formatter: Formatter, count: int | None, *, is_group: bool
) -> int:
    """Write messages until all `ends` are reached (without any: for ever) or `count` are written."""
    written = 0
    place = _GroupPosition(consumer) if is_group else None
    try:
        while count is None or written < count:
            if ends and _is_done(consumer, ends):
                break
            limit = POLL_COUNT_MAX if count is None else min(POLL_COUNT_MAX, count - written)
            messages = await consumer.poll(POLL_TIMEOUT_MS, limit)
            _write(messages, formatter)
            written += len(messages)
            if place is not None:
                await place.reached()
    finally:
        if place is not None:
            await place.store()
    return written


class _GroupPosition:
    """How far a group is: behind the last message that was written, whatever was read beyond it.

    Args:
        consumer: reads the messages and stores the group's offsets.
    """

    def __init__(self, consumer: PullConsumer) -> None:
        self._consumer = consumer
        self._offsets = self._positions()
        self._stored: dict[MessageQueue, int] = {}
        self._due_s = time.monotonic() + COMMIT_INTERVAL_S

    async def reached(self) -> None:
        """Take note that all messages that were polled are written; store that now and then."""
        self._offsets = self._positions()
        if time.monotonic() >= self._due_s:
            self._due_s = time.monotonic() + COMMIT_INTERVAL_S
            try:
                await self.store()
            except ClientError as error:  # a broker may be away for a while; the end stores it, or says so
                say(f"orbitmq: the group's offsets are stored later: {explain(error)}")

    async def store(self) -> None:
        """Store the group's offsets where they have changed."""
        changed = dict(self._offsets.items() - self._stored.items())
        if changed:
            await self._consumer.commit(changed)
            self._stored |= changed

    def _positions(self) -> dict[MessageQueue, int]:
        positions = {queue: self._consumer.position(queue) for queue in self._consumer.assignment}
        return {queue: offset for queue, offset in positions.items() if offset is not None}


def _is_done(consumer: PullConsumer, ends: dict[MessageQueue, int]) -> bool:
    return all((consumer.position(queue) or 0) >= end for queue, end in ends.items())


def _write(messages: list[StoredMessage], formatter: Formatter) -> None:
    for message in messages:
        if message.decode_error is not None:
            say(
                f"orbitmq: {message.broker_name} queue {message.queue_id} offset {message.queue_offset} is written as it is "
                f"stored, it cannot be decoded: {message.decode_error}"
            )
    if messages:
        sys.stdout.buffer.write(b"".join(map(formatter, messages)))
        sys.stdout.buffer.flush()
