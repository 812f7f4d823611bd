"""`orbitmq dlq …`: the dead letters of groups, and sending them to their topics again."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated

import typer

from orbitmq.cli.access import Access, command, exit_if_incomplete
from orbitmq.cli.terminal.exits import ExitCode
from orbitmq.cli.terminal.options import FormatOption, GroupArgument, SchemaOption
from orbitmq.cli.terminal.output import Format, Row, format_cell, format_time, say, show_json, show_rows
from orbitmq.cli.terminal.printable import printable
from orbitmq.errors import HeaderError, InvalidArgument

if TYPE_CHECKING:
    from orbitmq.admin.dead_letter_client import DeadLetters
    from orbitmq.admin.dead_letters import DeadLetter, DeadLetterSelection
    from orbitmq.body_schemas import Schema
    from orbitmq.client.send.result import SendResult

app = typer.Typer(help="List and show dead letters, and send them again.", no_args_is_help=True, rich_markup_mode=None)

FromOption = Annotated[
    str,
    typer.Option("--from", metavar="WHERE", help="An offset, for each queue; or BROKER:QUEUE:OFFSET: go on there."),
]
ToOption = Annotated[str | None, typer.Option("--to", metavar="OFFSET", help="Of each queue, stop before this offset.")]
BrokerOption = Annotated[str | None, typer.Option("--broker", help="Only the letters of the broker of this name.")]
IdOption = Annotated[
    list[str] | None,
    typer.Option(
        "--id", metavar="ID", help="Only this letter: its id, its origin's, or its client's. May be repeated."
    ),
]
CountOption = Annotated[int | None, typer.Option("--count", "-c", min=1, help="At most so many.")]

SHOW_COUNT_MAX = 100
_COLUMNS = ("place", "origin_topic", "origin_id", "message_id", "reconsume_times", "stored", "tag", "keys", "body")
_BODY_LENGTH = 40
"""Characters of a body in the table."""


@command(app, "list")
async def list_groups(
    access: Access,
    output: FormatOption = Format.TABLE,
) -> None:
    """List the groups that have dead letters: how many, and how old the newest one is.

    Exit code 1 when a broker did not answer, or is gone: what the others have is shown.
    """
    async with _connect(access) as dead_letters:
        groups, missing = await dead_letters.groups(), await dead_letters.missing_masters()
    rows = [
        {
            "group": letters.group,
            "count": letters.count,
            "newest": format_time(letters.newest_at_ms),
            "problem": letters.problem,
        }
        for letters in groups
    ]
    show_rows(rows, ("group", "count", "newest"), output)
    problems = [letters.problem for letters in groups if letters.problem is not None]
    for problem in problems:
        say(f"orbitmq: {problem}")
    exit_if_incomplete(missing)
    if problems:
        raise typer.Exit(ExitCode.NO)


@command(app, "show")
async def show(
    access: Access,
    group: GroupArgument,
    start: FromOption = "0",
    end: ToOption = None,
    broker: BrokerOption = None,
    ids: IdOption = None,
    count: CountOption = SHOW_COUNT_MAX,
    output: Annotated[
        Format, typer.Option("--output", "-o", help="table, or json: one object a line, with properties and body.")
    ] = Format.TABLE,
    schema: SchemaOption = None,
) -> None:
    """Show a group's dead letters, with where they came from. Exit code 1 when a broker is gone: its letters are not shown."""
    from orbitmq.body_schemas import load_schema

    selection = parse_selection(start, end, broker, ids, count)
    decode = load_schema(schema)
    rows: list[Row] = []
    async with _connect(access) as dead_letters:
        async for letter in dead_letters.read(group, selection):
            if output is Format.JSON:
                _show_json_line(letter, decode)
            else:
                rows.append(_row(letter, decode))
        missing = await dead_letters.missing_masters()
    if output is Format.TABLE:
        show_rows(rows, _COLUMNS, output)
    exit_if_incomplete(missing)


@command(app, "resend")
async def resend(
    access: Access,
    group: GroupArgument,
    start: FromOption = "0",
    end: ToOption = None,
    broker: BrokerOption = None,
    ids: IdOption = None,
    count: CountOption = None,
    topic: Annotated[
        str | None, typer.Option("--topic", help="Send to this topic, not to the one that each letter came from.")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Also those that were sent again before.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be sent, and send nothing.")] = False,
    output: Annotated[Format, typer.Option("--output", "-o", help="table, or json: one object a line.")] = Format.TABLE,
) -> None:
    """Send a group's dead letters to the topics that they came from: for every group that consumes those.

    Each letter is one line of output once its broker has it. The letters stay in the dead-letter topic, and the brokers keep how far
    they were sent: called again, the command sends what came since. With --from or --id it sends what these say. Exit code 1 when a
    broker is gone: its letters are not sent.
    """
    selection = parse_selection(start, end, broker, ids, count)
    report = _Report(output)
    try:
        async with _connect(access) as dead_letters:
            missing = await dead_letters.missing_masters()
            if dry_run:
                only_unsent = not again and selection.is_from_the_beginning
                await _report_unsent(report, dead_letters.read(group, selection, only_unsent=only_unsent), topic)
            else:
                async with aclosing(dead_letters.resend(group, selection, topic=topic, again=again)) as resent:
                    async for letter, sent in resent:
                        report.add(letter, sent.queue.topic, sent)
    except BaseException:
        if report.count:
            report.summarize("could be sent" if dry_run else "were sent before that")
        raise
    report.summarize("would be sent" if dry_run else "sent")
    if ids and report.count < len(selection.ids):
        say(f"orbitmq: {report.count} of {len(selection.ids)} ids were found")
        exit_if_incomplete(missing)
        raise typer.Exit(ExitCode.NO)
    exit_if_incomplete(missing)


async def _report_unsent(report: _Report, letters: AsyncGenerator[DeadLetter, None], topic: str | None) -> None:
    """Report where letters would be sent.

    Raises:
        InvalidArgument: at the end: the error of the first letter that cannot be sent.
    """
    problem: InvalidArgument | None = None
    async with aclosing(letters):
        async for letter in letters:
            try:
                report.add(letter, letter.again(topic).topic, None)
            except InvalidArgument as error:
                problem = problem or error
    if problem is not None:
        raise problem


class _Report:
    """Prints a line for each letter while a resend runs, and a summary."""

    def __init__(self, output: Format) -> None:
        self.count = 0
        self._output = output
        self._next_place: str | None = None

    def add(self, letter: DeadLetter, topic: str, sent: SendResult | None) -> None:
        """Print one letter; `sent` is None in a dry run."""
        self.count += 1
        self._next_place = str(letter.place.next)
        row = {
            "place": str(letter.place),
            "topic": topic,
            "origin_id": letter.origin_id,
            "message_id": None if sent is None else sent.message_id,
            "status": None if sent is None else str(sent.status),
        }
        if self._output is Format.JSON:
            show_json(row, is_line=True)
        else:
            sys.stdout.write("  ".join(printable(format_cell(value), is_cell=True) for value in row.values()) + "\n")
            sys.stdout.flush()

    def summarize(self, outcome: str) -> None:
        """Print how many letters there were, and the place with which the next call of the command goes on."""
        go_on = "" if self._next_place is None else f"; go on with --from {self._next_place}"
        say(f"{self.count} dead letters {outcome}{go_on}")


def parse_selection(
    start: str, end: str | None, broker: str | None, ids: list[str] | None, count: int | None
) -> DeadLetterSelection:
    """Parse the options that select dead letters.

    Raises:
        typer.BadParameter: `start` is neither an offset nor a place, or `end` is not an offset.
    """
    from orbitmq.admin.dead_letters import DeadLetterSelection, parse_place

    offset_min, place = 0, None
    if start.isascii() and start.isdecimal():
        offset_min = int(start)
    else:
        try:
            place = parse_place(start)
        except InvalidArgument as error:
            raise typer.BadParameter(
                f"{start!r} is neither an offset nor broker:queue:offset", param_hint="--from"
            ) from error
    if end is not None and not (end.isascii() and end.isdecimal()):
        raise typer.BadParameter(f"{end!r} is not an offset: a whole number from 0 on", param_hint="--to")
    return DeadLetterSelection(
        start=place,
        offset_min=offset_min,
        offset_end=None if end is None else int(end),
        broker_name=broker,
        ids=frozenset(ids or ()),
        count_max=count,
    )


def _connect(access: Access) -> DeadLetters:
    from orbitmq.admin.dead_letter_client import DeadLetters

    return access.connect(DeadLetters)


def _row(letter: DeadLetter, schema: Schema | None) -> Row:
    message, body = letter.message, bytes(letter.message.body)
    if schema is not None:
        try:
            body = json.dumps(schema(body), ensure_ascii=False).encode()
        except HeaderError as error:
            say(printable(f"{letter.place}: {error.remark}"))
    texts = {
        "origin_topic": letter.origin_topic,
        "origin_id": letter.origin_id,
        "message_id": message.message_id,
        "tag": message.tag,
        "keys": " ".join(message.keys),
    }
    return {
        **{name: text and printable(text) for name, text in texts.items()},
        "place": str(letter.place),
        "reconsume_times": message.reconsume_times,
        "stored": format_time(message.stored_at_ms),
        "body": _body_cell(body),
    }


def _body_cell(body: bytes) -> str:
    """Return the beginning of a body as a cell of the table."""
    text = body[: _BODY_LENGTH * 4].decode(errors="replace")
    is_cut = len(body) > _BODY_LENGTH * 4 or len(text) > _BODY_LENGTH
    return printable(text[:_BODY_LENGTH], is_cell=True) + ("…" if is_cut else "")


def _show_json_line(letter: DeadLetter, schema: Schema | None) -> None:
    import orjson

    from orbitmq.cli.messages.message_format import format_json_line

    document = {
        "place": str(letter.place),
        "origin_topic": letter.origin_topic,
        "origin_id": letter.origin_id,
        "reconsume_times": letter.message.reconsume_times,
        **orjson.loads(format_json_line(letter.message, schema)),
    }
    show_json(document, is_line=True)
