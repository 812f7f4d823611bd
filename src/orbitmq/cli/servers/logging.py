"""Logs of the servers on stderr: structlog's console form on a terminal, JSON lines otherwise.

The JSON lines are written here: loading structlog for them would cost each server 40 ms and 3 MB at every start.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TextIO

_OWN_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class LogLevel(StrEnum):
    """From which severity on lines are written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class JsonFormatter(logging.Formatter):
    """One JSON object per line: the text, where and when, and the fields given as `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record's line."""
        line: dict[str, Any] = {name: value for name, value in vars(record).items() if name not in _OWN_FIELDS}
        line["event"] = record.getMessage()
        line["level"] = record.levelname.lower()
        line["logger"] = record.name
        line["timestamp"] = datetime.fromtimestamp(record.created, UTC).isoformat().replace("+00:00", "Z")
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


def configure_logging(level: LogLevel = LogLevel.INFO, stream: TextIO | None = None, *, is_plain: bool = False) -> None:
    """Send the log lines of every room to `stream`, by default stderr.

    Args:
        is_plain: lines as commands print them, without time and fields, on a terminal and in a pipe alike.
    """
    stream = stream or sys.stderr
    handler = logging.StreamHandler(stream)
    if is_plain:
        handler.setFormatter(logging.Formatter("orbitmq: %(message)s"))
    else:
        handler.setFormatter(_console_formatter() if stream.isatty() else JsonFormatter())
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())


def _console_formatter() -> logging.Formatter:
    import structlog

    shared: list[Any] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last: list[Any] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta, structlog.dev.ConsoleRenderer()]
    return structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=last)
