"""Real processes of Spark, a standalone cluster and a server of Spark Connect, and Python environments that have, or lack, the connector."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

import orbitmq

SPARK_HOME = Path(pyspark.__file__).parent
SOURCES = Path(orbitmq.__file__).parents[1]
_SMALL = {"SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
_LOCAL = ("--host", "127.0.0.1", "--webui-port", "0")


def bare_environment() -> dict[str, str]:
    """Return the environment of a machine without a login: no Python of ours on the PATH, nothing of the driver's."""
    kept = {name: os.environ[name] for name in ("JAVA_HOME", "HOME") if name in os.environ}
    return {**kept, "PATH": "/usr/bin:/bin", "SPARK_LOCAL_IP": "127.0.0.1"}


def make_python(folder: Path, *, with_orbitmq: bool) -> Path:
    """Make an environment with what the connector needs, and with itself if wanted; return its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    # A path in a .pth file is searched, but .pth files there, as of an editable install, are not read.
    paths = [path for path in sys.path if path.endswith("site-packages")] + ([str(SOURCES)] if with_orbitmq else [])
    (packages,) = (folder / "lib").glob("python3*/site-packages")
    (packages / "paths.pth").write_text("\n".join(paths) + "\n")
    return folder / "bin" / "python"


def run_job(python: Path, job: Path, folder: Path, *arguments: str, **environment: str) -> list[str]:
    """Run a program in a bare environment; return the lines that it prints."""
    command = [str(python), str(job), *arguments]
    done = subprocess.run(
        command, cwd=folder, env={**bare_environment(), **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


@contextmanager
def standalone_cluster(folder: Path) -> Iterator[str]:
    """Run a master and two workers of one core each, in a bare environment; yield the master's URL."""
    with ExitStack() as stack:
        started = r"Starting Spark master at (spark://\S+)"
        url = stack.enter_context(_daemon(folder / "master", "master.Master", started, *_LOCAL, "--port", "0"))
        for name in ("worker-a", "worker-b"):
            options = [*_LOCAL, "--cores", "1", "--memory", "1g", "--work-dir", str(folder / name), url]
            stack.enter_context(
                _daemon(folder / name, "worker.Worker", "Successfully registered with (master)", *options)
            )
        yield url


@contextmanager
def connect_server(folder: Path, python: Path) -> Iterator[str]:
    """Run a server of Spark Connect, whose Python is given; yield its URL."""
    arguments = ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "--master", "local[2]"]
    for name, value in {"spark.connect.grpc.binding.port": "0", "spark.ui.enabled": "false"}.items():
        arguments += ["--conf", f"{name}={value}"]
    of_server = {"PYSPARK_PYTHON": str(python), "SPARK_DAEMON_MEMORY": "1g"}
    started = r"Spark Connect server started at: \S*?:(\d+)"
    with _daemon(folder, "SparkSubmit", started, *arguments, "spark-internal", **of_server) as port:
        yield f"sc://127.0.0.1:{port}"


@contextmanager
def _daemon(folder: Path, name: str, ready: str, *arguments: str, **environment: str) -> Iterator[str]:
    """Run a process of Spark's; yield what the group of `ready` finds in its log."""
    folder.mkdir()
    command = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
    environment = {**bare_environment(), **_SMALL, **environment, "SPARK_HOME": str(SPARK_HOME)}
    log = folder / "log"
    with log.open("w") as output:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=output, stderr=output)
    try:
        while (found := re.search(ready, log.read_text())) is None:
            assert process.poll() is None, log.read_text()
            time.sleep(0.05)
        yield found[1]
    finally:
        process.terminate()
        process.wait()
