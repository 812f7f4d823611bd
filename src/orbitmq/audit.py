"""The audit log: one line of JSON for each change that a tool makes to a cluster.

A record says who changed what, when, and what it was before and after. `LogOfChanges` takes records; one of them appends to a file,
the other one writes to the process's log.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from orbitmq.masking import masked

log = logging.getLogger(__name__)

TEXT_LENGTH_MAX = 500
"""Characters of a text in a line; a longer one is cut, with a mark and its length."""
TARGET_COUNT_MAX = 40
"""Entries of a target."""
FILE_MODE = 0o600
"""Readable by its owner alone: targets and settings tell of a cluster what its users need not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """One change, or one that was tried.

    Args:
        at_ms: when it ended, in ms since 1970.
        who: the user or the program that asked for it.
        action: such as `create_topic`.
        target: what was to be changed, by the names of the arguments.
        before: the settings or offsets that were there; None where there were none.
        after: those that are there now; None where there are none.
        error: why it failed; a part of it may have been done then.
    """

    at_ms: int
    who: str
    action: str
    target: Mapping[str, Any]
    before: Any = None
    after: Any = None
    error: str | None = None


class LogOfChanges(Protocol):
    """Takes the records of changes."""

    def write(self, record: AuditRecord) -> None:
        """Keep a record.

        Raises:
            OSError: the record cannot be kept.
        """
        ...


def write_or_log(audit: LogOfChanges, record: AuditRecord) -> str | None:
    """Write a record; return why it is not in the log, which must not look like a change that was not made."""
    try:
        audit.write(record)
    except OSError as error:
        log.error("a change is not in the audit log: %s: %s", error, format_record(record))
        return f"the change is not in the audit log: {error}"
    return None


def format_record(record: AuditRecord) -> str:
    """Return a record as one line of JSON, without its end; what JSON does not know becomes text, secrets are masked, a long text is cut."""
    document = {
        "time": datetime.fromtimestamp(record.at_ms / 1000, UTC).isoformat(timespec="milliseconds"),
        "who": record.who,
        "action": record.action,
        "target": _first(masked(record.target)),
        "before": masked(record.before),
        "after": masked(record.after),
        "error": masked(record.error),
    }
    # Escaped: a lone surrogate, which a name from outside may hold, has no other form.
    return json.dumps(_cut(document))


def _first(target: Mapping[str, Any]) -> dict[str, Any]:
    """Return the first entries of a target: a form may have many that mean nothing."""
    first = dict(islice(target.items(), TARGET_COUNT_MAX))
    return first if len(target) <= TARGET_COUNT_MAX else first | {"…": f"{len(target) - TARGET_COUNT_MAX} more"}


def _cut(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= TEXT_LENGTH_MAX else f"{value[:TEXT_LENGTH_MAX]}… ({len(value)} characters)"
    if isinstance(value, Mapping):
        return {_cut(key): _cut(found) for key, found in value.items()}
    if isinstance(value, (list, tuple)):
        return list(map(_cut, value))
    return value if value is None or isinstance(value, (int, float)) else _cut(str(value))


class AuditFile:
    """Appends records to a file, which is made for its owner alone (0600); several processes may append to one.

    Raises:
        OSError: the file cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        os.close(self._open())  # a file that cannot be written is found before the first change

    def write(self, record: AuditRecord) -> None:
        """Append a record.

        Raises:
            OSError: it cannot be written; a part of the line may be there.
        """
        line = (format_record(record) + "\n").encode()
        descriptor = self._open()  # by its name each time: a file that was rotated away gets no more lines
        try:
            while line:
                line = line[os.write(descriptor, line) :]
        finally:
            os.close(descriptor)

    def _open(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)


class AuditLogging:
    """Writes records to the process's log, whatever the level of its other lines is."""

    def __init__(self) -> None:
        log.setLevel(logging.INFO)

    def write(self, record: AuditRecord) -> None:
        """Log a record at INFO."""
        log.info("audit %s", format_record(record))
