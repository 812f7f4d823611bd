"""Servers as child processes: what a test needs that kills one without warning."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import javaproperties

from orbitmq.address import parse_address
from orbitmq.broker.registration.addresses import kept_port
from orbitmq.errors import InvalidArgument
from orbitmq.process.child_process import ChildProcess, ServerDied


class Service(Protocol):
    """A server of this process, or in a process of its own."""

    @property
    def address(self) -> str:
        """Where it listens, as host:port."""
        ...

    @property
    def metrics_address(self) -> str | None:
        """Where its HTTP port is, as host:port; None without."""
        ...

    async def start(self) -> None:
        """Listen."""
        ...

    async def stop(self) -> None:
        """Listen no more."""
        ...


class ServerNode:
    """One server that may be stopped and started again on the port that it had.

    Args:
        build: returns the server that is to listen on a port; 0 stands for any.
    """

    def __init__(self, build: Callable[[int], Service]) -> None:
        self.address = ""
        self._build = build
        self._service: Service | None = None
        self._placeholder: socket.socket | None = None
        """Keeps the port while the server is down: others that choose one of their own are not given it."""

    @property
    def metrics_address(self) -> str | None:
        """Where the running server's HTTP port is, as host:port; None without."""
        return None if self._service is None else self._service.metrics_address

    async def start(self) -> None:
        """Start the server, unless it is running."""
        if self._service is not None:
            return
        service = self._build(parse_address(self.address)[1] if self.address else 0)
        await service.start()
        self._service = service
        self.address = service.address
        self.give_port_back()

    async def stop(self) -> None:
        """Stop the server, if it is running."""
        service, self._service = self._service, None
        if service is not None:
            await service.stop()
            self._keep_port()

    async def kill(self) -> None:
        """Kill the server's process, if it is running.

        Raises:
            InvalidArgument: the server has no process of its own.
        """
        if not isinstance(self._service, ServerProcess | None):
            raise InvalidArgument("processes", False, "True: a server of this process cannot be killed on its own")
        service, self._service = self._service, None
        if service is not None:
            await service.kill()
            self._keep_port()

    def give_port_back(self) -> None:
        """Keep the port of a stopped server no longer: it will not come back."""
        placeholder, self._placeholder = self._placeholder, None
        if placeholder is not None:
            placeholder.close()

    def _keep_port(self) -> None:
        with suppress(OSError):  # another process was quicker: the next start says so
            self._placeholder = kept_port(*parse_address(self.address))


LOG_SIZE_SHOWN = 2000


class ServerProcess(ChildProcess):
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
        super().__init__()
        self.address = ""
        self.metrics_address: str | None = None
        self._command = command
        self._properties = properties
        self._directory = directory
        self._prefix = tuple(prefix)

    async def start(self) -> None:
        """Start the process and wait for its ready line.

        Raises:
            ServerDied: it ended instead; tells the end of its log.
        """
        self._directory.mkdir(parents=True, exist_ok=True)
        config_path = self._directory / f"{self._command}.conf"
        log_path = self._directory / f"{self._command}.log"
        config_path.write_text(javaproperties.dumps(dict(self._properties), timestamp=None), encoding="utf-8")
        words = [*self._prefix, sys.executable, "-m", "orbitmq", self._command, "-c", str(config_path), "-o", "json"]
        with log_path.open("ab") as log:
            begin = log.tell()
            self._spawn(words, log=log)
        line = await self._ready_line()
        if not line:
            said = log_path.read_bytes()[begin:].decode(errors="replace")[-LOG_SIZE_SHOWN:].strip()
            raise ServerDied(f"{self._command} did not start: {said}")
        ready = json.loads(line)
        self.address = ready[self._command]
        self.metrics_address = ready.get("metrics")
