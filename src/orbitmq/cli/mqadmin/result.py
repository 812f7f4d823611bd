"""The result of a subcommand: the lines that Java prints, and the same as rows for programs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from orbitmq.model.route import MessageQueue


@dataclass(frozen=True, slots=True)
class Result:
    """What a subcommand prints.

    Args:
        lines: as Java prints them, without their ends.
        rows: for `--output json`; one object where it is a mapping.
        problems: said on stderr; the exit code is 1 where there are some.
        notices: said on stderr.
    """

    lines: Sequence[str] = ()
    rows: Sequence[Mapping[str, Any]] | Mapping[str, Any] = ()
    problems: Sequence[str] = field(default_factory=tuple)
    notices: Sequence[str] = ()


def listed(text: str, rows: Iterable[Mapping[str, Any]]) -> Result:
    """Return a result with one line for each row: the text, with the row's values for the names in it (`to {address} success`)."""
    found = list(rows)
    return Result([text.format_map(row) for row in found], found)


def joined(results: Iterable[Result], problems: Sequence[str] = ()) -> Result:
    """Return several results, each with one row, as one."""
    found = list(results)
    rows: list[Any] = [one.rows for one in found]
    return Result([line for one in found for line in one.lines], rows, problems)


def table(
    layout: str, titles: str, rows: Iterable[Iterable[object]] = (), *, titles_layout: str | None = None
) -> list[str]:
    """Return lines in columns, the titles first.

    Args:
        layout: Java's format of a line, as `%-32s  %4s`: cells are padded, and cut where a precision says so.
        titles: of the columns, with `|` between them.
        titles_layout: where Java has another one for these.
    """
    return [(titles_layout or layout) % tuple(titles.split("|")), *(layout % tuple(row) for row in rows)]


def settings_lines(title: str, settings: Mapping[str, str]) -> list[str]:
    """Return a server's settings, sorted, below a title."""
    return [f"============{title}============", *(f"{key:<50}=  {value}" for key, value in sorted(settings.items()))]


def java_text(value: object) -> str:
    """Return a value as Java's toString does."""
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return "null"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(java_text, value))}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key}={java_text(part)}' for key, part in value.items())}}}"
    return str(value)


def java_object(kind: str, /, **fields: object) -> str:
    """Return an object as most of Java's toString do: its class, and its fields in their order."""
    return f"{kind} [{', '.join(f'{name}={java_text(value)}' for name, value in fields.items())}]"


def queue_text(queue: MessageQueue) -> str:
    """Return a queue as Java prints it (MessageQueue.toString)."""
    return java_object("MessageQueue", topic=queue.topic, brokerName=queue.broker_name, queueId=queue.queue_id)


def time_text(at_ms: int) -> str:
    """Return a time as Java prints it (UtilAll.timeMillisToHumanString2), in this machine's zone; empty for none."""
    return f"{seconds_text(at_ms)},{at_ms % 1000:03d}" if at_ms > 0 else ""


def seconds_text(at_ms: int) -> str:
    """Return a time to the second, in this machine's zone."""
    return f"{datetime.fromtimestamp(at_ms / 1000):%Y-%m-%d %H:%M:%S}"
