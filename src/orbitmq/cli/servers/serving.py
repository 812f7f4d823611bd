"""The life of a server on the command line: start, say that it is ready, wait for a signal, stop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import shlex
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Protocol, TypeVar

import typer

from orbitmq.cli.servers.logging import LogLevel
from orbitmq.cli.terminal.output import Format, show_json
from orbitmq.process.garbage_collector import short_collections

PORT_MAX = 65535
LogLevelOption = Annotated[LogLevel, typer.Option("--log-level", help="From which severity on to log, on stderr.")]
HostOption = Annotated[str, typer.Option("--host", help="Address to listen on.")]
ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config", "-c", exists=True, dir_okay=False, metavar="FILE", help="Properties file with RocketMQ's own keys."
    ),
]
STRICT_HELP = "Refuse keys of the file that neither RocketMQ 5.3.3 nor orbitmq knows; else name them in the log."
MetricsPortOption = Annotated[
    int | None,
    typer.Option(
        "--metrics-port", min=-1, max=PORT_MAX, help="HTTP port of /metrics, /healthz, /readyz.  [default: none]"
    ),
]


SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Service(Protocol):
    """A server, or several that go up and down together."""

    async def start(self) -> None:
        """Listen."""
        ...

    async def stop(self) -> None:
        """Finish what is under way and let go of everything; also after a start that failed."""
        ...


S = TypeVar("S", bound=Service)


async def serve_until_signal(make: Callable[[], S], announce: Callable[[S], None]) -> None:
    """Run a service until SIGINT or SIGTERM; `announce` is called once it listens."""
    # Before it is made: a server takes as many connections as it has descriptors for.
    raise_descriptor_limit()
    service = make()
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop() -> None:
        # A second signal means that the operator does not want to wait: it kills.
        _restore_signals(loop)
        stopping.set()

    for number in SIGNALS:
        loop.add_signal_handler(number, stop)
    try:
        await service.start()
        with short_collections(loop):
            announce(service)
            await stopping.wait()
    finally:
        await service.stop()
        _restore_signals(loop)


def raise_descriptor_limit() -> None:
    """Raise the limit of file descriptors as far as the system allows: each connection and each consume queue needs one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):  # macOS says "unlimited" and does not mean it
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def show_ready(form: Format, **facts: str) -> None:
    """Print the line that programs wait for: `ready name=value …`, or a JSON object with `"event": "ready"`."""
    if form is Format.JSON:
        show_json({"event": "ready", "pid": os.getpid(), **facts}, is_line=True)
        return
    pairs = " ".join(f"{name}={shlex.quote(value)}" for name, value in facts.items())
    print(f"ready {pairs} pid={os.getpid()}", flush=True)


def _restore_signals(loop: asyncio.AbstractEventLoop) -> None:
    for number in SIGNALS:
        loop.remove_signal_handler(number)
