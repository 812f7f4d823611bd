"""Times on the command line."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import typer

from orbitmq.clock import now_ms as read_clock

TIME_HELP = "10m, 2h or 3d ago, a time as 2026-11-21T12:03 (UTC), or milliseconds since 1970."

DELAY_HELP = "90s, 10m, 2h or 3d."
MOMENT_HELP = "A time as 2026-11-21T12:03 (UTC), or milliseconds since 1970."

_EPOCH = datetime.fromtimestamp(0, UTC)
_UNITS_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SPAN = re.compile(r"([0-9]{1,6})([smhd])")
_MILLISECONDS = re.compile(r"[0-9]{1,15}")


def parse_time(text: str, option: str, now_ms: int | None = None, *, words: str = "") -> int:
    """Return milliseconds since 1970 of `10m`, `2h`, `3d` ago, of an ISO 8601 time (UTC where it names no zone), or of
    a number of milliseconds.

    Args:
        words: what `option` takes besides, for the error: "earliest, latest, ".

    Raises:
        typer.BadParameter: none of these, or before 1970; names `option`.
    """
    found = _parse(text, read_clock() if now_ms is None else now_ms)
    if found is None or found < 0:
        raise typer.BadParameter(
            f"{text!r} is neither {words}10m, 2h or 3d, nor a time since 1970 such as 2026-11-21T12:03, nor milliseconds",
            param_hint=option,
        )
    return found


def parse_delay(text: str, option: str) -> int:
    """Return the milliseconds of `90s`, `10m`, `2h` or `3d`.

    Raises:
        typer.BadParameter: none of these; names `option`.
    """
    if (found := _parse_span(text)) is None:
        raise typer.BadParameter(f"{text!r} is not a delay such as 90s, 10m, 2h or 3d", param_hint=option)
    return found


def parse_moment(text: str, option: str) -> datetime:
    """Return an ISO 8601 time (UTC where it names no zone), or that of a number of milliseconds since 1970.

    Raises:
        typer.BadParameter: neither of them, or before 1970; names `option`.
    """
    found = _parse_moment(text)
    try:
        if found is not None and found >= 0:
            return _EPOCH + timedelta(milliseconds=found)
    except OverflowError:
        pass
    allowed = "a time since 1970 such as 2026-11-21T12:03, nor milliseconds"
    raise typer.BadParameter(f"{text!r} is neither {allowed}", param_hint=option)


def _parse(text: str, now_ms: int) -> int | None:
    span_ms = _parse_span(text)
    return _parse_moment(text) if span_ms is None else max(0, now_ms - span_ms)


def _parse_span(text: str) -> int | None:
    match = _SPAN.fullmatch(text)
    return None if match is None else int(match[1]) * _UNITS_MS[match[2]]


def _parse_moment(text: str) -> int | None:
    if _MILLISECONDS.fullmatch(text):
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None
