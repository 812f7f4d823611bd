"""Priorities, side by side with the broker of RocketMQ 5.5.0: the peers' version, 5.3.3, has none."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from interop import peers
from orbitmq import Message
from orbitmq.admin.client import AdminClient
from orbitmq.blocking import Producer, SimpleConsumer
from orbitmq.model.topic import TopicConfig

VERSION = "5.5.0"
PRIORITIES = (0, 2, 1, 9, 0, 2, 1, 1, 2, 0)


@pytest.fixture
def newer_jars(jars: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Java's servers run from the jars of a newer version."""
    project, jars_path = Path(peers.__file__).parent / "java", tmp_path / "jars"
    command = ["mvn", "-q", "-B", "-f", str(project / "pom.xml"), f"-Drocketmq.version={VERSION}"]
    command += ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={jars_path}"]
    fetched = subprocess.run(command, capture_output=True, text=True, check=False) if shutil.which("mvn") else None
    if fetched is None or fetched.returncode:
        pytest.skip(f"the jars of RocketMQ {VERSION} cannot be fetched with Maven")
    own = f"{project}/target/classes", f"{project}/logging", f"{jars_path}/*"
    monkeypatch.setattr(peers, "class_path", lambda: os.pathsep.join(own))


async def _create(name_servers: str, topic: str) -> None:
    attributes = {"+message.type": "PRIORITY"}
    async with AdminClient(name_servers) as admin:
        await admin.create_topic(
            TopicConfig(topic=topic, read_queue_count=3, write_queue_count=3, attributes=attributes)
        )


def queues_and_order(name_servers: str, topic: str) -> tuple[list[int], list[bytes]]:
    """Send messages of several priorities; return the queues that they lie in, and the order in which a group pops them."""
    asyncio.run(_create(name_servers, topic))
    with Producer(f"{topic}-p", name_servers) as producer:
        sent = [
            producer.send(Message(topic, b"%d" % number, priority=priority))
            for number, priority in enumerate(PRIORITIES)
        ]
    order: list[bytes] = []
    with SimpleConsumer(f"{topic}-group", name_servers) as consumer:
        consumer.subscribe(topic)
        while len(order) < len(PRIORITIES):
            for message in consumer.receive(1):
                order.append(message.body)
                consumer.ack(message)
    return [result.queue.queue_id for result in sent], order


@pytest.mark.proof
@pytest.mark.usefixtures("newer_jars")
def test_both_brokers_keep_priorities_in_the_same_queues_and_give_them_in_the_same_order(ours, name, tmp_path):
    with peers.java_servers(tmp_path) as (name_servers, _):
        javas = queues_and_order(name_servers, name)
    assert queues_and_order(ours.name_servers, name) == javas
    assert javas[1] == [b"1", b"3", b"5", b"8", b"2", b"6", b"7", b"0", b"4", b"9"]
