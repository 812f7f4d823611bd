"""A broker in a process of its own, and what can be seen of it from outside: its memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType

import psutil

MIB = 2**20
_NOBODY = "127.0.0.1:9"
"""A NameServer that does not answer: brokers serve without one."""


class BrokerVictim:
    """Start it with `with`. On more than one core it gets the first one, and whoever starts it the others.

    Args:
        settings: RocketMQ's keys for its `broker.conf`.
    """

    def __init__(self, **settings: object) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.folder = Path(self._folder.name)
        config = self.folder / "broker.conf"
        config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        words = ["-c", config, "-n", _NOBODY, "--host", "127.0.0.1", "--port", "0", "--name", "victim"]
        words += ["--data-dir", self.folder / "store", "-o", "json", "--log-level", "error"]
        with (self.folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "orbitmq", "broker", *map(str, words)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, self.log
        self.address: str = json.loads(line)["broker"]
        host, _, port = self.address.rpartition(":")
        self.host, self.port = host, int(port)
        self._about = psutil.Process(self._process.pid)
        self._cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        if len(self._cores) > 1:
            self._about.cpu_affinity(self._cores[:1])
            os.sched_setaffinity(0, self._cores[1:])

    def __enter__(self) -> BrokerVictim:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if len(self._cores) > 1:
            os.sched_setaffinity(0, self._cores)
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._folder.cleanup()

    @property
    def memory_mb(self) -> float:
        """Memory of its own: pages of mapped files are the kernel's to take back."""
        status = Path(f"/proc/{self._process.pid}/status")
        if status.exists():
            (line,) = (line for line in status.read_text().splitlines() if line.startswith("RssAnon"))
            return int(line.split()[1]) / 1024
        return float(self._about.memory_info().rss) / MIB

    @property
    def log(self) -> str:
        """What it wrote at severity error."""
        return (self.folder / "log").read_text(errors="replace")
