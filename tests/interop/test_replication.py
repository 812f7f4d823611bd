"""Masters and slaves of both makes: the slave's log is its master's, byte by byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from children import freeze
from interop.drain import bodies
from interop.peers import JavaBroker, PeerError, message
from orbitmq.testing import LocalCluster
from waiting import wait_for

SEGMENT_SIZE = 1024 * 1024
CLUSTER = "CopiedCluster"
JAVA_SYNC_S = 60
"""How often a Java slave asks for its master's tables (BrokerController: once in a minute; what fails waits for the next)."""


def log_of(store: Path) -> dict[str, bytes]:
    """The files of a CommitLog by name, without the zeros at their ends."""
    if not (store / "commitlog").exists():
        return {}
    files = {path.name: path.read_bytes().rstrip(b"\0") for path in sorted((store / "commitlog").iterdir())}
    return {name: content for name, content in files.items() if content}


def attributes_of(store: Path, *topics: str) -> dict[str, Any] | None:
    """The topics' attributes in a broker's topics.json, once it has all of them."""
    table = store / "config" / "topics.json"
    known = json.loads(table.read_text())["topicConfigTable"] if table.exists() else {}
    return {topic: known[topic]["attributes"] for topic in topics} if known.keys() >= set(topics) else None


@pytest.mark.java
def test_a_java_slave_takes_over_topics_that_have_a_type(java, tmp_path, name):
    settings = {
        "broker_cluster_name": CLUSTER,
        "mapped_file_size_commit_log": SEGMENT_SIZE,
        "ha_listen_port": 0,
        "vip_channel_enable": True,
    }
    with LocalCluster.running(settings=settings, processes=True) as cluster:
        address = cluster.brokers["broker-a"]
        for topic, attributes in ((f"{name}-typed", "+message.type=FIFO"), (f"{name}-plain", "")):
            java.mqadmin("updateTopic", "-b", address, "-t", topic, *(("-a", attributes) if attributes else ()))
        slave = JavaBroker(
            tmp_path / "slave",
            cluster.name_servers,
            name="broker-a",
            cluster=CLUSTER,
            broker_id=1,
            properties={"mappedFileSizeCommitLog": SEGMENT_SIZE},
        )
        slave.start()
        try:
            store, topics = tmp_path / "slave" / "store", (f"{name}-typed", f"{name}-plain")
            found = wait_for(
                lambda: attributes_of(store, *topics), "the slave to take over both topics", 3 * JAVA_SYNC_S,
                errors=ValueError,  # Java empties the file, and writes it then
            )  # fmt: skip
            assert found == {topics[0]: {"message.type": "FIFO"}, topics[1]: {}}
        finally:
            slave.kill()


@pytest.mark.java
def test_our_slave_takes_over_topics_of_a_java_master_that_have_a_type(java, tmp_path, name):
    settings = {
        "broker_role": "SLAVE",
        "broker_id": 1,
        "broker_cluster_name": CLUSTER,
        "mapped_file_size_commit_log": SEGMENT_SIZE,
        "register_name_server_period": 10_000,
    }
    with LocalCluster.running(data_dir=tmp_path / "ours", settings=settings, processes=True) as cluster:
        master = JavaBroker(
            tmp_path / "master",
            cluster.name_servers,
            name="broker-a",
            cluster=CLUSTER,
            properties={"mappedFileSizeCommitLog": SEGMENT_SIZE},
        )
        master.start()
        try:
            typed, plain = f"{name}-typed", f"{name}-plain"
            java.mqadmin("updateTopic", "-b", master.address, "-t", typed, "-a", "+message.type=FIFO")
            java.mqadmin("updateTopic", "-b", master.address, "-t", plain)
            ours = tmp_path / "ours" / "broker-a"
            found = wait_for(lambda: attributes_of(ours, typed, plain), "our slave to take over both topics")
            assert found == {typed: {"message.type": "FIFO"}, plain: {}}
        finally:
            master.kill()


@pytest.mark.proof
@pytest.mark.java
def test_a_java_slave_copies_our_master_and_goes_on_when_either_was_killed(java, tmp_path, name):
    settings = {
        "broker_role": "SYNC_MASTER",
        "broker_cluster_name": CLUSTER,
        "mapped_file_size_commit_log": SEGMENT_SIZE,
        "ha_send_heartbeat_interval": 500,
        "slave_timeout": 1_000,
    }
    with LocalCluster.running(data_dir=tmp_path / "ours", settings=settings, processes=True) as cluster:
        ours, theirs = tmp_path / "ours" / "broker-a", tmp_path / "slave" / "store"
        slave = JavaBroker(
            tmp_path / "slave",
            cluster.name_servers,
            name="broker-a",
            cluster=CLUSTER,
            broker_id=1,
            properties={
                "mappedFileSizeCommitLog": SEGMENT_SIZE,
                "haSendHeartbeatInterval": 500,
                "slaveReadEnable": "true",
            },
        )
        producer = java.producer(f"{name}-producers", cluster.name_servers, poll_ms=500)
        sent = []

        def send(count: int) -> set[str]:
            more = [b"%d " % (len(sent) + number) + b"x" * 3_000 for number in range(count)]
            sent.extend(more)
            return {result["status"] for body in more for result in producer.send(message(name, body))}

        def copied() -> bool:
            return log_of(theirs) == log_of(ours)

        assert send(10) == {"SLAVE_NOT_AVAILABLE"}
        slave.start()
        try:
            java.wait_for(copied, "the slave to copy what there was")
            assert send(700) == {"SEND_OK"}
            assert copied(), "what is acknowledged is in the slave's file"
            assert len(log_of(ours)) > 2
            freeze(slave.process.pid)
            assert send(1) == {"FLUSH_SLAVE_TIMEOUT"}
            slave.kill()
            java.wait_for(lambda: send(1) == {"SLAVE_NOT_AVAILABLE"}, "the master to know that the slave is gone")
            slave.start()
            java.wait_for(copied, "the slave to catch up after its own death")
            cluster.kill_broker()
            cluster.start_broker()
            java.wait_for(lambda: _sends(producer, name, sent), "the producer to find its master again")
            send(50)
            java.wait_for(copied, "the slave to follow the master that came back")
            status = java.mqadmin("haStatus", "-b", cluster.brokers["broker-a"])
            assert "127.0.0.1" in status.partition("#SlaveAddr")[2], status
        finally:
            slave.kill()
        consumer = java.consumer(f"{name}-group", cluster.name_servers, name, poll_ms=500)
        java.wait_for(lambda: set(sent) <= set(bodies(consumer.received)), "every message that was acknowledged")
        consumer.stop()
        producer.stop()


def _sends(producer, topic: str, sent: list[bytes]) -> bool:
    """Send a message; False where the client has not found its broker yet."""
    try:
        producer.send(message(topic, b"again"))
    except PeerError:
        return False
    sent.append(b"again")
    return True


@pytest.mark.proof
@pytest.mark.java
def test_our_slave_copies_a_java_master_and_goes_on_when_either_was_killed(java, tmp_path, name):
    settings = {
        "broker_role": "SLAVE",
        "broker_id": 1,
        "broker_cluster_name": CLUSTER,
        "mapped_file_size_commit_log": SEGMENT_SIZE,
        "ha_send_heartbeat_interval": 500,
        "register_name_server_period": 10_000,
    }
    with LocalCluster.running(data_dir=tmp_path / "ours", settings=settings, processes=True) as cluster:
        ours, theirs = tmp_path / "ours" / "broker-a", tmp_path / "master" / "store"
        master = JavaBroker(
            tmp_path / "master",
            cluster.name_servers,
            name="broker-a",
            cluster=CLUSTER,
            properties={"mappedFileSizeCommitLog": SEGMENT_SIZE, "haSendHeartbeatInterval": 500},
        )
        master.start()
        producer = java.producer(f"{name}-producers", cluster.name_servers, poll_ms=500)
        sent: list[bytes] = []

        def send(count: int) -> None:
            more = [b"%d " % (len(sent) + number) + b"x" * 3_000 for number in range(count)]
            sent.extend(more)
            for body in more:
                producer.send(message(name, body))

        def copied() -> bool:
            return log_of(theirs) == log_of(ours)

        try:
            send(20)
            java.wait_for(copied, "our slave to find its master and copy what there was")
            send(700)
            java.wait_for(copied, "our slave to follow over the ends of files")
            cluster.kill_broker()
            send(50)
            cluster.start_broker()
            java.wait_for(copied, "our slave to catch up after its own death")
            master.kill()
            master.start()
            java.wait_for(lambda: _sends(producer, name, sent), "the producer to find its master again")
            java.wait_for(copied, "our slave to follow the master that came back")
        finally:
            master.kill()
        consumer = java.consumer(f"{name}-group", cluster.name_servers, name, poll_ms=500)
        java.wait_for(lambda: set(sent) <= set(bodies(consumer.received)), "readers to be served by the slave alone")
        consumer.stop()
        producer.stop()
