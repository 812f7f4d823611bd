"""Logs of the servers: structlog over stdlib logging, on stderr; readable on a terminal, JSON lines otherwise."""

from __future__ import annotations

import logging
import sys
from enum import StrEnum
from typing import Any, TextIO


class LogLevel(StrEnum):
    """From which severity on lines are written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def configure_logging(level: LogLevel = LogLevel.INFO, stream: TextIO | None = None) -> None:
    """Send the log lines of every room to `stream`, by default stderr."""
    import structlog

    stream = stream or sys.stderr
    shared: list[Any] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last: list[Any] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    if stream.isatty():
        last.append(structlog.dev.ConsoleRenderer())
    else:
        last += [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    handler = logging.StreamHandler(stream)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=last))
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())
