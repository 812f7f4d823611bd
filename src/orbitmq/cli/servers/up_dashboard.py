"""The dashboard of `orbitmq up` in a process of its own: what browsers ask of it takes no time of the servers' event loop.

`python -m orbitmq.cli.servers.up_dashboard PORT LOG_LEVEL` reads the NameServers' address from its stdin, so that it loads its modules
while the servers start.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Protocol

from orbitmq.cli.servers.logging import LogLevel
from orbitmq.cli.servers.restarts import keep_running
from orbitmq.process.child_process import ChildProcess, ServerDied

_RESTART_S = 1.0
"""How long after its end the dashboard is started again."""


class DashboardProcess(ChildProcess):
    """The process, as `up` sees it. `load` begins early; `start` waits until it answers, on the same port after a restart.

    Args:
        port: 0 lets the system choose one.
    """

    def __init__(self, port: int, log_level: LogLevel) -> None:
        super().__init__()
        self.url = ""
        self.name_servers = ""
        self._port = port
        self._log_level = log_level

    def load(self) -> None:
        """Start the process, which waits for the NameServers' address."""
        words = [sys.executable, "-m", __name__, str(self._port), self._log_level.value]
        self._spawn(words, stdin=subprocess.PIPE)

    async def start(self) -> None:
        """Serve the cluster of `name_servers`.

        Raises:
            ServerDied: it ended instead, and has said why on stderr.
        """
        if self._process is None or self._process.poll() is not None:
            self.load()
        assert self._process is not None
        assert self._process.stdin is not None
        with suppress(BrokenPipeError), self._process.stdin as stdin:
            stdin.write(f"{self.name_servers}\n".encode())
        line = await self._ready_line()
        if not line:
            raise ServerDied("the dashboard did not start: its line above says why")
        self.url = json.loads(line)["dashboard"]
        self._port = int(self.url.rstrip("/").rpartition(":")[2])

    def close(self) -> None:
        """End a process that was loaded and has not started."""
        if (process := self._process) is not None:
            process.kill()
            process.communicate()
            self._process = None


class Servers(Protocol):
    """A NameServer and what registers with it (`serving.Service`)."""

    async def start(self) -> None:
        """Listen."""
        ...

    async def stop(self) -> None:
        """Let go of everything; also after a start that failed."""
        ...

    @property
    def name_server_address(self) -> str:
        """Where clients reach the NameServer, as host:port."""
        ...

    @property
    def ready_fields(self) -> Mapping[str, str]:
        """What else the ready line says, by its names."""
        ...


class WithDashboard:
    """Servers, and the dashboard that shows them, in a process of its own."""

    def __init__(self, servers: Servers, dashboard: DashboardProcess) -> None:
        self._servers = servers
        self._dashboard = dashboard
        self._keeping: asyncio.Task[None] | None = None

    @property
    def name_server_address(self) -> str:
        """Where clients reach the NameServer, as host:port."""
        return self._servers.name_server_address

    @property
    def ready_fields(self) -> Mapping[str, str]:
        """What the ready line says: the servers' fields, and the dashboard's address."""
        return {**self._servers.ready_fields, "dashboard": self._dashboard.url}

    async def start(self) -> None:
        """Start the servers, then the dashboard, which is started again when it ends."""
        await self._servers.start()
        self._dashboard.name_servers = self._servers.name_server_address
        await self._dashboard.start()
        keeping = keep_running("the dashboard", self._dashboard, _RESTART_S)
        self._keeping = asyncio.get_running_loop().create_task(keeping)

    async def stop(self) -> None:
        """Stop the dashboard, then the servers."""
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)
        await self._dashboard.stop()
        await self._servers.stop()


def main(port: int, log_level: LogLevel) -> int:
    """Serve until SIGTERM, or until the process of `up` has ended."""
    from orbitmq.cli.servers.dashboard import configure_dashboard_logging, load_dashboard
    from orbitmq.cli.servers.serving import serve_until_signal, show_ready
    from orbitmq.cli.terminal.exits import exit_code_of, explain
    from orbitmq.cli.terminal.output import Format
    from orbitmq.errors import OrbitError
    from orbitmq.net.loop import run

    configure_dashboard_logging(log_level)
    serve, options = load_dashboard()
    name_servers = sys.stdin.readline().strip()
    if not name_servers:  # the servers have not started
        return 0
    try:
        run(
            serve_until_signal(
                lambda: serve(name_servers, options(port=port)),
                lambda service: show_ready(Format.JSON, dashboard=service.url),
            )
        )
    except (OrbitError, OSError) as error:
        print(f"orbitmq: the dashboard on port {port}: {explain(error)}", file=sys.stderr)
        return exit_code_of(error)
    return 0


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        sys.exit(main(int(sys.argv[1]), LogLevel(sys.argv[2])))
