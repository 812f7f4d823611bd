"""An issue that a check reports: how bad it is, and the command that helps. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple


class Severity(StrEnum):
    """How bad an issue is."""

    ERROR = "error"
    """Messages are lost, or cannot be sent or read."""
    WARNING = "warning"
    """They may be soon, or something does not work as it is meant to."""
    INFO = "info"
    """Worth knowing."""


_RANK = {severity: rank for rank, severity in enumerate(Severity)}


class Issue(NamedTuple):
    """Something that is wrong.

    Args:
        check: the check's name, as `docs/reference/doctor.md` explains it.
        subject: what it is about: a server, a topic, a group.
        text: what was found, with its figures, in one sentence.
        to_type: a command that shows more or mends it; None: there is none.
    """

    severity: Severity
    check: str
    subject: str
    text: str
    to_type: str | None = None


def worst_first(issues: Iterable[Issue]) -> list[Issue]:
    """Return issues by severity, then by check and subject."""
    return sorted(issues, key=lambda issue: (_RANK[issue.severity], issue.check, issue.subject, issue.text))


def command(*words: str) -> str:
    """Return a command line of ours to copy; names, which any client may have chosen, are quoted for the shell."""
    return shlex.join(("orbitmq", *words))


def listed(names: Iterable[str], count_max: int = 3) -> str:
    """Return some names in a row, and how many more there are."""
    found = list(names)
    left = len(found) - count_max
    return ", ".join(found[:count_max]) + (f" and {left} more" if left > 0 else "")
