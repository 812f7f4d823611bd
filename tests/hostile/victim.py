"""A NameServer in a process of its own, and what can be seen of it from outside: memory, CPU time, metrics."""

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

import psutil

MIB = 2**20


class Victim:
    """Start it with `with`. On more than one core it gets the first one, and whoever starts it the others.

    Args:
        settings: RocketMQ's keys for its properties file.
    """

    def __init__(self, **settings: object) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.folder = Path(self._folder.name)
        config = self.folder / "namesrv.conf"
        config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        words = ["-c", config, "--host", "127.0.0.1", "--port", "0", "--data-dir", self.folder, "--metrics-port", "0"]
        with (self.folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "orbitmq", "nameserver", *map(str, words), "-o", "json", "--log-level", "error"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, self.log
        ready = json.loads(line)
        self.address: str = ready["nameserver"]
        self._metrics_url = f"http://{ready['metrics']}/metrics"
        host, _, port = self.address.rpartition(":")
        self.host, self.port = host, int(port)
        self.process_id = self._process.pid
        self._about = psutil.Process(self.process_id)
        cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        self._cores = cores
        if len(cores) > 1:
            self._about.cpu_affinity(cores[:1])
            os.sched_setaffinity(0, cores[1:])

    def __enter__(self) -> Victim:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if len(self._cores) > 1:
            os.sched_setaffinity(0, self._cores)
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._folder.cleanup()

    @property
    def memory_mb(self) -> float:
        """Resident memory."""
        return self._about.memory_info().rss / MIB

    @property
    def log(self) -> str:
        """What it wrote at severity error."""
        return (self.folder / "log").read_text(errors="replace")

    def metrics(self) -> dict[str, float]:
        """Scrape it: values by name and labels, without the common prefix, such as `failed_requests_total`."""
        with urllib.request.urlopen(self._metrics_url, timeout=60) as answer:
            text = answer.read().decode()
        found = re.findall(r"^(?:rocketmq_nameserver_)?(\S+(?:\{[^}]*\})?) (\S+)$", text, re.MULTILINE)
        return {name: float(value) for name, value in found}
