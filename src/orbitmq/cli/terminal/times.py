"""Times as people type them."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import typer

from orbitmq.clock import now_ms as read_clock

TIME_HELP = "10m, 2h or 3d ago, a time as 2026-11-21T12:03 (UTC), or milliseconds since 1970."

_UNITS_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_AGO = re.compile(r"([0-9]{1,6})([smhd])")
_MILLISECONDS = re.compile(r"[0-9]{1,15}")


def parse_time(text: str, option: str, now_ms: int | None = None) -> int:
    """Return milliseconds since 1970 of `10m`, `2h`, `3d` ago, of an ISO 8601 time (UTC where it names no zone), or of
    a number of milliseconds.

    Raises:
        typer.BadParameter: none of these, or before 1970; names `option`.
    """
    found = _parse(text, read_clock() if now_ms is None else now_ms)
    if found is None or found < 0:
        raise typer.BadParameter(
            f"{text!r} is neither 10m, 2h or 3d, nor a time since 1970 such as 2026-11-21T12:03, nor milliseconds",
            param_hint=option,
        )
    return found


def _parse(text: str, now_ms: int) -> int | None:
    if match := _AGO.fullmatch(text):
        return max(0, now_ms - int(match[1]) * _UNITS_MS[match[2]])
    if _MILLISECONDS.fullmatch(text):
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None
