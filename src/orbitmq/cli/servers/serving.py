"""The life of a server on the command line: start, say that it is ready, wait for a signal, stop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import shlex
import signal
from collections.abc import Callable
from typing import Protocol, TypeVar

from orbitmq.cli.terminal.output import Format, show_json
from orbitmq.process.garbage_collector import short_collections

SIGNALS = (signal.SIGINT, signal.SIGTERM)
PARENT = "ORBITMQ_PARENT"
"""The environment variable with the process that a server is a part of, see `orbitmq.testing.processes`."""
_LOOK_S = 1.0


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
    watching = loop.create_task(_end_with_parent(stop))
    try:
        await service.start()
        with short_collections(loop):
            announce(service)
            await stopping.wait()
    finally:
        watching.cancel()
        await service.stop()
        _restore_signals(loop)


async def _end_with_parent(stop: Callable[[], None]) -> None:
    """Stop when the process is gone that started this one as a part of itself; of others nothing is known, and they live on."""
    parent = os.environ.get(PARENT, "")
    while parent.isdigit() and os.getppid() == int(parent):
        await asyncio.sleep(_LOOK_S)
    if parent.isdigit():
        stop()


def raise_descriptor_limit() -> None:
    """Raise the limit of file descriptors as far as the system allows: each connection and each consume queue needs one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):  # macOS says "unlimited" and does not mean it
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def show_ready(form: Format, **fields: str) -> None:
    """Print the line that programs wait for: `ready name=value …`, or a JSON object with `"event": "ready"`."""
    if form is Format.JSON:
        show_json({"event": "ready", "pid": os.getpid(), **fields}, is_line=True)
        return
    pairs = " ".join(f"{name}={shlex.quote(value)}" for name, value in fields.items())
    print(f"ready {pairs} pid={os.getpid()}", flush=True)


def _restore_signals(loop: asyncio.AbstractEventLoop) -> None:
    for number in SIGNALS:
        loop.remove_signal_handler(number)
