"""Starting a server's process again when it has ended: brokers of a group, and the dashboard of `up`."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import Protocol

from orbitmq.errors import OrbitError

PAUSE_S_MAX = 60.0


class Restartable(Protocol):
    """A server in a process of its own."""

    async def start(self) -> None:
        """Start it, and wait until it is ready."""
        ...

    async def ended(self) -> int:
        """Return the exit code when it has ended; negative: a signal's number."""
        ...


async def keep_running(name: str, process: Restartable, pause_s: float) -> None:
    """Start a process again whenever it has ended, until this is cancelled; each end is a line of stderr with its reason.

    Args:
        pause_s: from its end to the next start; doubled after each start that fails, up to `PAUSE_S_MAX`.
    """
    while True:
        wait_s, reason = pause_s, f"has ended ({_reason(await process.ended())})"
        while reason:
            print(f"{name} {reason}; it is started again in {wait_s:g} s", file=sys.stderr, flush=True)
            await asyncio.sleep(wait_s)
            try:
                await process.start()
                reason = ""
            except (OrbitError, OSError) as error:
                wait_s, reason = min(2 * wait_s, PAUSE_S_MAX), f"has not started ({_last_line(error)})"
        print(f"{name} is there again", file=sys.stderr, flush=True)


def _last_line(error: Exception) -> str:
    """Return an error's last line: before that stands the log of the start."""
    return (str(error).splitlines() or [""])[-1].removeprefix("orbitmq: ")


def _reason(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
