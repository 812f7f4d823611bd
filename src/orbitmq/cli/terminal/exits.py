"""Exit codes, and the line that goes with each.

0  done
1  understood, and the answer is no: an unknown topic, a refused message, a port that is taken
2  usage: an option, an argument or a configuration value that is not allowed
3  unreachable: no NameServer or broker answered
4  warnings, and no error (doctor, health)
130  interrupted before the work was done

`orbitmq nameserver` ends as Java's NamesrvStartup does instead, for the scripts that start it: 1 for arguments that are
not allowed, 255 when it cannot start.
"""

from __future__ import annotations

from enum import IntEnum
from errno import EADDRINUSE

from orbitmq.errors import (
    ConnectionFailed,
    InvalidArgument,
    NoNameServer,
    PartlyDone,
    RequestTimeout,
    SendFailed,
)


class ExitCode(IntEnum):
    """How a command ended."""

    OK = 0
    NO = 1
    USAGE = 2
    UNREACHABLE = 3
    WARNINGS = 4
    """Of `orbitmq doctor` and `orbitmq health`: there is no error, but there are warnings."""
    INTERRUPTED = 130


class NameServerExit(IntEnum):
    """How `orbitmq nameserver` ends otherwise than others (Java: NamesrvStartup, ServerUtil.parseCmdLine)."""

    ARGUMENTS = 1
    FAILED = 255


EXIT_CODES_HELP = "Exit codes: 0 done, 1 the answer is no, 2 usage, 3 no server answered."

_UNREACHABLE = (ConnectionFailed, RequestTimeout, NoNameServer)


def exit_code_of(error: BaseException) -> ExitCode:
    """Return the exit code that an error leads to."""
    if isinstance(error, KeyboardInterrupt):
        return ExitCode.INTERRUPTED
    if isinstance(error, SendFailed) and error.causes:
        reached = [cause for cause in error.causes if not isinstance(cause, _UNREACHABLE)]
        return ExitCode.NO if reached else ExitCode.UNREACHABLE
    if isinstance(error, PartlyDone) and error.__cause__ is not None:
        return exit_code_of(error.__cause__)
    if isinstance(error, _UNREACHABLE):
        return ExitCode.UNREACHABLE
    return ExitCode.USAGE if isinstance(error, InvalidArgument) else ExitCode.NO


def explain(error: BaseException) -> str:
    """Return what is said about an error, and what to try where that is known."""
    text = ". ".join([str(error) or type(error).__name__, *getattr(error, "__notes__", ())])
    if isinstance(error, NoNameServer):
        return f"{text}. Others are named with -n or NAMESRV_ADDR"
    if isinstance(error, OSError) and error.errno == EADDRINUSE:
        return f"{text}: of another `orbitmq up`, perhaps. With 0 as port a free one is chosen"
    return text
