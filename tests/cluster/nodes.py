"""NameServers and brokers as real processes, started from the command line like an operator's."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from time import monotonic, sleep
from typing import Any, TypeVar

T = TypeVar("T")

PATIENCE_S = 60
"""How long anything may take before a test gives up; never an assertion about speed."""


class Node:
    """One process of ours. `ready` holds what it said when it was: addresses, data folder, process id."""

    def __init__(self, words: Sequence[str], *, prefix: Sequence[str] = (), log: Path) -> None:
        self._command = [*prefix, sys.executable, "-m", "orbitmq", *words, "--output", "json"]
        self._log = log
        self.ready: dict[str, Any] = {}
        self._process: subprocess.Popen[str] | None = None
        self.start()

    def start(self) -> None:
        """Start the process and wait until it says that it is ready."""
        with self._log.open("a") as log:
            self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            raise RuntimeError(f"{self._command} did not start: {self._log.read_text()[-2000:]}")
        self.ready = json.loads(line)
        # Whatever it says later must not fill the pipe.
        Thread(target=self._process.stdout.read, daemon=True).start()

    def signal(self, number: int) -> None:
        """Send the process a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """kill -9."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Stop it as an operator does; return the exit code."""
        return self._end(signal.SIGTERM)

    def log_text(self) -> str:
        """Return what the process has logged so far."""
        return self._log.read_text()

    def _end(self, number: int) -> int:
        if self._process is None:
            return 0
        if self._process.poll() is None:
            self._process.send_signal(number)
        code = self._process.wait(PATIENCE_S)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process = None
        return code


class Nodes:
    """All processes of one test; ends them in the opposite order."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._nodes: list[Node] = []

    def name_server(
        self,
        name: str = "ns",
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        prefix: Sequence[str] = (),
        settings: dict[str, object] | None = None,
    ) -> Node:
        """Start a NameServer; `settings` are RocketMQ's own keys."""
        config = self._config(name, settings or {})
        words = [
            "nameserver",
            "-c",
            str(config),
            "--host",
            host,
            "--port",
            str(port),
            "--data-dir",
            str(self._home(name)),
        ]
        return self._add(Node(words, prefix=prefix, log=self._folder / f"{name}.log"))

    def broker(
        self,
        name: str,
        name_servers: Sequence[str],
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        prefix: Sequence[str] = (),
        settings: dict[str, object] | None = None,
    ) -> Node:
        """Start a broker of that name; `settings` are RocketMQ's own keys."""
        # Small segments: the disk of a test machine is not the subject.
        defaults = {"brokerIP1": host, "mappedFileSizeCommitLog": 16 << 20, "mappedFileSizeConsumeQueue": 600_000}
        config = self._config(name, defaults | (settings or {}))
        words = [
            "broker",
            "-c",
            str(config),
            "-n",
            ";".join(name_servers),
            "--name",
            name,
            "--host",
            host,
            "--port",
            str(port),
            "--data-dir",
            str(self._home(name)),
        ]
        return self._add(Node(words, prefix=prefix, log=self._folder / f"{name}.log"))

    def end(self) -> None:
        """Kill whatever still runs."""
        for node in reversed(self._nodes):
            node.kill()

    def _add(self, node: Node) -> Node:
        self._nodes.append(node)
        return node

    def _home(self, name: str) -> Path:
        home = self._folder / name
        home.mkdir(exist_ok=True)
        return home

    def _config(self, name: str, settings: dict[str, object]) -> Path:
        path = self._folder / f"{name}.conf"
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return path


@contextmanager
def nodes(folder: Path) -> Iterator[Nodes]:
    """Give a test its processes and take them away afterwards."""
    all_nodes = Nodes(folder)
    try:
        yield all_nodes
    finally:
        all_nodes.end()


def eventually(look: Callable[[], T], what: str, patience_s: float = PATIENCE_S) -> T:
    """Look again and again until `look` returns something true; say what never came otherwise."""
    end = monotonic() + patience_s
    while True:
        found = look()
        if found:
            return found
        if monotonic() > end:
            raise AssertionError(f"{what}: not within {patience_s} s, last seen {found!r}")
        sleep(0.02)


def free_port(host: str = "127.0.0.1") -> int:
    """Return a port that was free a moment ago, for a process that must come back to the same one."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])
