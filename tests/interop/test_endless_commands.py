"""mqadmin's commands that end only with their process: with our broker they print at first what they print with Java's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from interop.conftest import JavaCluster
from interop.peers import JavaClients, JavaProcess, message
from orbitmq.testing import BlockingCluster

pytestmark = pytest.mark.proof

COMMAND = ("peers.Guard", "org.apache.rocketmq.tools.command.MQAdminStartup")


@dataclass(frozen=True)
class Side:
    """One of the two clusters."""

    name_servers: str
    cluster: str
    broker: str


class Running(JavaProcess):
    """A command that runs until it is killed; what it logs is printed, too."""

    def __init__(self, home: Path, command: str, *arguments: str) -> None:
        jvm = ("-Dpeers.log.level=INFO", "-Dpeers.log.target=System.out")
        super().__init__(command, home, (*COMMAND, command, *arguments), heap_mb=128, jvm=jvm)


@pytest.fixture(scope="module")
def sides(java_cluster: JavaCluster, ours: BlockingCluster) -> tuple[Side, Side]:
    return (
        Side(java_cluster.name_server.address, java_cluster.broker.cluster, java_cluster.broker.name),
        Side(ours.name_servers, "DefaultCluster", "broker-a"),
    )


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def run(stack: ExitStack, home: Path, side: Side, command: str, *arguments: str) -> Running:
    """Start a command on one side; it is killed when the test ends."""
    process = Running(home / side.cluster, command, "-n", side.name_servers, *arguments)
    stack.callback(process.kill)
    return process


def test_sends_are_timed_at_both_brokers(sides: tuple[Side, Side], stack: ExitStack, tmp_path: Path) -> None:
    printed = []
    for side in sides:
        command = run(stack, tmp_path, side, "clusterRT", "-c", side.cluster, "-a", "3", "-s", "16", "-i", "1")
        lines = [command.wait_for_line(lambda line: line.startswith("#Cluster"))]
        lines += [command.wait_for_line(lambda line: line.startswith(f"{side.cluster} ")) for _ in range(2)]  # noqa: B023
        words = [line.replace(side.cluster, "CLUSTER").replace(side.broker, "BROKER").split() for line in lines]
        printed.append([[re.sub(r"\d+\.\d+", "RT", word) for word in line] for line in words])
    assert printed[1] == printed[0]
    assert printed[0][1] == ["CLUSTER", "BROKER", "RT", "3", "0"]


def test_groups_are_watched_at_both_brokers(
    sides: tuple[Side, Side], java: JavaClients, name: str, stack: ExitStack, tmp_path: Path
) -> None:
    """The first round of a monitor finds a group that has read all, and the settings of its one client."""
    for side in sides:
        java.mqadmin("updateTopic", "-n", side.name_servers, "-c", side.cluster, "-t", name, "-r", "1", "-w", "1")
        producer = java.producer(f"{name}-producers", side.name_servers)
        producer.send(*(message(name, b"%d" % number) for number in range(2)))
        stack.callback(producer.stop)
        consumer = java.consumer(f"{name}-group", side.name_servers, name)
        stack.callback(consumer.stop)
        consumer.wait_for_messages(2)
    monitors = [run(stack, tmp_path, side, "startMonitoring") for side in sides]
    found = []
    for side, monitor in zip(sides, monitors, strict=True):
        lines: list[str] = []
        monitor.wait_for_line(lambda line: lines.append(line) or "endRound" in line)  # type: ignore[func-returns-value]  # noqa: B023
        mine = [line.partition("[MONITOR]")[2] for line in lines if "[MONITOR]" in line and f"{name}-group" in line]
        # The retry topic comes in with its first offset: when its consumer next asks for routes, within half a minute.
        mine = [line for line in mine if "topic=%RETRY%" not in line]
        found.append(
            sorted(re.sub(r"(DelayTimeMills)=\d+", r"\1=N", line.replace(side.broker, "BROKER")) for line in mine)
        )
    assert found[1] == found[0]
    assert any("undoneMsgsTotal=0" in line and f"topic={name}," in line for line in found[0]), found
