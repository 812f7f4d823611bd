"""A real etcd for tests: one member on free ports, with its data in a directory of the test."""

from __future__ import annotations

import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from children import freeze
from orbitmq.broker.registration.addresses import kept_port

ROOT = Path(__file__).parents[1]
START_S = 30


@cache
def etcd_program() -> str:
    """Return the path of etcd; skips loudly on a laptop that has none, and fails in CI."""
    found = subprocess.run([ROOT / "scripts" / "find-etcd"], capture_output=True, text=True, check=False)
    if found.returncode:
        if os.environ.get("CI") == "true":
            pytest.fail(found.stderr)
        pytest.skip(found.stderr.strip().splitlines()[-1])
    return found.stdout.strip()


class EtcdServer:
    """One member: `start`, `kill`, and `start` again with the same data."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.process: subprocess.Popen[bytes] | None = None
        self._ports = [kept_port("127.0.0.1", 0) for _ in range(2)]  # other servers are not given them
        self.endpoint, self._peer = (f"http://127.0.0.1:{port.getsockname()[1]}" for port in self._ports)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        arguments = {
            "data-dir": str(self.directory / "data"),
            "listen-client-urls": self.endpoint,
            "advertise-client-urls": self.endpoint,
            "listen-peer-urls": self._peer,
            "initial-advertise-peer-urls": self._peer,
            "initial-cluster": f"default={self._peer}",
        }
        self.directory.mkdir(exist_ok=True)
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [etcd_program(), *(f"--{name}={value}" for name, value in arguments.items())], stdout=log, stderr=log
            )
        end = time.monotonic() + START_S
        while not self._is_healthy():
            if self.process.poll() is not None or time.monotonic() > end:
                raise AssertionError(f"etcd does not start: {(self.directory / 'log').read_text()[-2000:]}")
            time.sleep(0.05)

    def kill(self) -> None:
        """Kill it, and wait for its end."""
        if self.process is not None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait()
            self.process = None

    def close(self) -> None:
        """Kill it, and give its ports back."""
        self.kill()
        for port in self._ports:
            port.close()

    def freeze(self) -> None:
        """Let it stand still: connections are taken, and nothing is answered."""
        assert self.process is not None
        freeze(self.process.pid)

    def thaw(self) -> None:
        """Let it go on."""
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGCONT)

    def _is_healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.endpoint}/health", timeout=1) as answer:
                return b"true" in answer.read(1000)
        except (OSError, urllib.error.URLError):
            return False


@contextmanager
def etcd_server(directory: Path) -> Iterator[EtcdServer]:
    """Run one member until the end of the block."""
    server = EtcdServer(directory)
    try:
        server.start()
        yield server
    finally:
        server.close()
