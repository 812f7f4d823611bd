"""A Kafka server (KRaft) in a process of its own, with upstream's heap and collector, and the jars of Spark's connector."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.load import BenchmarkError
from benchmarks.servers import STOP_TIMEOUT_S, free_port

START_WITHIN_S = 60
HEAP = ["-Xms1g", "-Xmx1g"]
# bin/kafka-run-class.sh: KAFKA_JVM_PERFORMANCE_OPTS, and the heap of bin/kafka-server-start.sh.
TUNING = ["-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35"]
CLUSTER_ID = "b3JiaXRtcS1iZW5jaG1hcg"

_HERE = Path(__file__).parent
_FETCH = _HERE.parent.parent / "scripts" / "make-kafka"
_JARS = _HERE / "target"
_SETTINGS = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
controller.listener.names=CONTROLLER
log.dirs={folder}/log
offsets.topic.replication.factor=1
"""


def fetch_jars() -> None:
    """Fetch Kafka and the connector, if that was not done before."""
    if subprocess.run([str(_FETCH)], check=False).returncode:
        raise BenchmarkError("Kafka could not be fetched: scripts/make-kafka says why")


def connector_jars() -> str:
    """Return what `spark.jars` has to name."""
    return ",".join(str(path) for path in sorted((_JARS / "connector").glob("*.jar")))


def versions() -> dict[str, str]:
    """Return the versions of the server and of what Spark reads it with."""
    names = {"server": "server/kafka_2.13", "connector": "connector/spark-sql-kafka-0-10_2.13"}
    names["client"] = "connector/kafka-clients"
    found = {what: next(_JARS.glob(f"{name}-*.jar")).stem for what, name in names.items()}
    return {what: stem.rpartition("-")[2] for what, stem in found.items()}


def java_command() -> list[str]:
    """Return the start of a Java command line with Kafka's classes."""
    home = os.environ.get("JAVA_HOME")
    return [shutil.which(f"{home}/bin/java" if home else "java") or "java", "-cp", f"{_JARS}/server/*"]


@contextmanager
def kafka_server(folder: Path) -> Iterator[str]:
    """Run a server that keeps its files in `folder`; yields its address."""
    folder.mkdir()
    port, controller = free_port(), free_port()
    settings = folder / "server.properties"
    settings.write_text(_SETTINGS.format(port=port, controller=controller, folder=folder))
    java = java_command()
    with (folder / "output.log").open("wb") as log:
        format_line = ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(settings)]
        subprocess.run([*java, *format_line], stdout=log, stderr=log, check=True)
        process = subprocess.Popen([*java, *HEAP, *TUNING, "kafka.Kafka", str(settings)], stdout=log, stderr=log)
    try:
        _await_port(process, port, folder / "output.log")
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await_port(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_WITHIN_S
    while process.poll() is None and time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise BenchmarkError(f"Kafka did not come up:\n{log.read_text(errors='replace')[-1500:]}")
