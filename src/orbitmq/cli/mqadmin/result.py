"""The result of a subcommand: the lines that Java prints, and the same as rows for programs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


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


def row(widths: Iterable[tuple[int, object]]) -> str:
    """Return cells in columns, two blanks apart; a negative width is aligned to the left, as in Java's `%-20s`."""
    return "  ".join(cell(width, value) for width, value in widths)


def cell(width: int, value: object) -> str:
    """Return one cell; nothing is cut."""
    text = str(value)
    return text.ljust(-width) if width < 0 else text.rjust(width)
