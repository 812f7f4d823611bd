"""A server in a process of its own, and what can be seen of it from outside: memory, CPU time, metrics."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

MIB = 2**20
_NO_NAME_SERVER = "127.0.0.1:9"
"""A NameServer that does not answer: brokers serve without one."""
STOP_S = 20
"""A server that has not stopped after so long is killed."""


class ServerVictim:
    """Start it with `with`. On more than one core it gets the first one, and its starter the others.

    Args:
        words: the command and its options.
        settings: RocketMQ's keys for its properties file.
    """

    def __init__(self, *words: str, settings: dict[str, object]) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.folder = Path(self._folder.name)
        config = self.folder / "server.conf"
        config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        options = ["-c", config, "--host", "127.0.0.1", "--port", "0", "--data-dir", self.folder / "data"]
        with (self.folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "orbitmq", *words, *map(str, options), "-o", "json", "--log-level", "error"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, self.log
        self.ready: dict[str, str] = json.loads(line)
        """What it said when it was ready."""
        self.address = self.ready[words[0]]
        host, _, port = self.address.rpartition(":")
        self.host, self.port = host, int(port)
        self.process_id = self._process.pid
        self._about = psutil.Process(self.process_id)
        self._cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        if len(self._cores) > 1:
            self._about.cpu_affinity(self._cores[:1])
            os.sched_setaffinity(0, self._cores[1:])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if len(self._cores) > 1:
            os.sched_setaffinity(0, self._cores)
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._folder.cleanup()

    @property
    def memory_mb(self) -> float:
        """Resident memory."""
        return float(self._about.memory_info().rss) / MIB

    @property
    def log(self) -> str:
        """What it wrote at severity error."""
        return (self.folder / "log").read_text(errors="replace")


class Victim(ServerVictim):
    """A NameServer."""

    def __init__(self, **settings: object) -> None:
        super().__init__("nameserver", "--metrics-port", "0", settings=settings)

    def metrics(self) -> dict[str, float]:
        """Scrape it: values by name and labels, without the common prefix, such as `failed_requests_total`."""
        with urllib.request.urlopen(f"http://{self.ready['metrics']}/metrics", timeout=60) as answer:
            text = answer.read().decode()
        found = re.findall(r"^(?:rocketmq_nameserver_)?(\S+(?:\{[^}]*\})?) (\S+)$", text, re.MULTILINE)
        return {name: float(value) for name, value in found}


class BrokerVictim(ServerVictim):
    """A broker."""

    def __init__(self, **settings: object) -> None:
        super().__init__("broker", "-n", _NO_NAME_SERVER, "--name", "victim", settings=settings)

    @property
    def memory_mb(self) -> float:
        """Memory of its own: pages of mapped files are the kernel's to take back."""
        status = Path(f"/proc/{self.process_id}/status")
        if status.exists():
            (line,) = (line for line in status.read_text().splitlines() if line.startswith("RssAnon"))
            return int(line.split()[1]) / 1024
        return super().memory_mb
