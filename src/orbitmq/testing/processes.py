"""Servers as child processes: what a test needs that kills one without warning."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import javaproperties

from orbitmq.errors import OrbitError

STOP_TIMEOUT_S = 30
LOG_SIZE_SHOWN = 2000


class ServerDied(OrbitError):
    """A server's process ended before it was ready."""


class ServerProcess:
    """One `orbitmq nameserver` or `orbitmq broker` in a process of its own.

    Args:
        command: `nameserver` or `broker`; also the name under which the ready line tells the address.
        properties: RocketMQ's keys for the server's configuration file.
        directory: where that file and the server's log are kept.
        prefix: words before the command, such as `ip netns exec HOST`.
    """

    def __init__(
        self, command: str, properties: Mapping[str, str], directory: Path, *, prefix: Sequence[str] = ()
    ) -> None:
        self.address = ""
        self.metrics_address: str | None = None
        self._command = command
        self._properties = properties
        self._directory = directory
        self._prefix = tuple(prefix)
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        """Start the process and wait for its ready line.

        Raises:
            ServerDied: it ended instead; tells the end of its log.
        """
        self._directory.mkdir(parents=True, exist_ok=True)
        config_path = self._directory / f"{self._command}.conf"
        log_path = self._directory / f"{self._command}.log"
        config_path.write_text(javaproperties.dumps(dict(self._properties), timestamp=None), encoding="utf-8")
        self._process = process = self._spawn(config_path, log_path)
        assert process.stdout is not None
        line = await asyncio.to_thread(process.stdout.readline)
        if not line:
            await self.kill()
            raise ServerDied(
                f"{self._command} did not start: {log_path.read_text(errors='replace')[-LOG_SIZE_SHOWN:].strip()}"
            )
        ready = json.loads(line)
        self.address = ready[self._command]
        self.metrics_address = ready.get("metrics")

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

    def _spawn(self, config_path: Path, log_path: Path) -> subprocess.Popen[bytes]:
        with log_path.open("ab") as log:
            return subprocess.Popen(
                [*self._prefix, sys.executable, "-m", "orbitmq", self._command, "-c", str(config_path), "-o", "json"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
            )

    async def _reap(self) -> None:
        process, self._process = self._process, None
        assert process is not None
        try:
            await asyncio.to_thread(process.wait, STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            await asyncio.to_thread(process.wait)
        assert process.stdout is not None
        process.stdout.close()
