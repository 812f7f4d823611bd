"""Services in processes of their own, which end with the process that has started them."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Sequence
from typing import IO

from orbitmq.errors import OrbitError

STOP_TIMEOUT_S = 30
_POLL_S = 0.2


class ServerDied(OrbitError):
    """A server's process ended before it was ready."""


class ChildProcess:
    """A service in a process of its own, which prints a ready line of JSON; it ends with this process, also with kill -9."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The id of the running process."""
        return None if self._process is None else self._process.pid

    async def stop(self) -> None:
        """Ask the process to stop (SIGTERM), and wait until it has."""
        if self._process is not None:
            self._process.terminate()
            await self._reap()

    async def kill(self) -> None:
        """Kill the process (SIGKILL): no shutdown, nothing written down."""
        if self._process is not None:
            self._process.kill()
            await self._reap()

    async def ended(self) -> int:
        """Return the exit code when the process has ended, by itself or by a signal (then it is negative)."""
        process = self._process
        assert process is not None, "it is running"
        while (code := process.poll()) is None:
            await asyncio.sleep(_POLL_S)
        return code

    def _spawn(
        self, words: Sequence[str], *, log: IO[bytes] | None = None, stdin: int = subprocess.DEVNULL
    ) -> subprocess.Popen[bytes]:
        environment = os.environ | {"ORBITMQ_PARENT": str(os.getpid())}
        environment.pop("NAMESRV_ADDR", None)  # it would win over the settings
        self._process = subprocess.Popen(words, env=environment, stdin=stdin, stdout=subprocess.PIPE, stderr=log)
        return self._process

    async def _ready_line(self) -> bytes:
        """Return the process's first line; empty where it ended instead, and has been reaped then."""
        assert self._process is not None, "it is running"
        assert self._process.stdout is not None
        try:
            line = await asyncio.to_thread(self._process.stdout.readline)
        except BaseException:
            await self.kill()  # no caller knows of it yet
            raise
        if not line:
            await self.kill()
        return line

    async def _reap(self) -> None:
        process, self._process = self._process, None
        assert process is not None
        try:
            await asyncio.to_thread(process.wait, STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            await asyncio.to_thread(process.wait)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
