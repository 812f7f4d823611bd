"""A cluster for the time of a job: `orbitmq up` in a process of its own, gone when the job ends, however it ends."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson

from orbitmq.errors import OrbitError

_STOP_SECONDS = 15


@contextmanager
def embedded_cluster(data_dir: Path) -> Iterator[str]:
    """Run a NameServer and a broker on ports of their own choice; yields the NameServer's address."""
    command = [sys.executable, "-m", "orbitmq", "up", "--nameserver-port", "0", "--broker-port", "0"]
    # A session of its own: Ctrl-C reaches the job only, which ends the servers when it has done with them.
    server = subprocess.Popen(
        [*command, "--data-dir", str(data_dir), "-o", "json", "--log-level", "error"],
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        assert server.stdout is not None
        line = server.stdout.readline()
        if not line:
            raise OrbitError(f"`orbitmq up` ended with exit code {server.wait()} before it was ready")
        yield orjson.loads(line)["nameserver"]
    finally:
        server.terminate()
        try:
            server.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
        if server.stdout is not None:
            server.stdout.close()
