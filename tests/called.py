"""The command line, called in the process of the tests: one of its own takes 0.4 s of processor time."""

from __future__ import annotations

import io
import logging
from contextlib import redirect_stderr, redirect_stdout
from subprocess import CompletedProcess

from orbitmq.cli.main import main


def call_command(*words: object, name_servers: str | None = None) -> CompletedProcess[str]:
    """Run a command that starts no server; return its exit code and what it has written.

    Args:
        words: of its command line, without `orbitmq`.
        name_servers: the addresses that `-n` names.
    """
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    given = [*map(str, words), *(("-n", name_servers) if name_servers else ())]
    written = [io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2)]
    try:
        with redirect_stdout(written[0]), redirect_stderr(written[1]):
            code = main(given)
    finally:  # commands that run servers set logging up for the whole process
        root.handlers[:] = handlers
        root.setLevel(level)
    out, err = (file.buffer.getvalue().decode() for file in written)
    return CompletedProcess(given, code, out, err)
