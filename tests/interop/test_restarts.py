"""Servers of ours restart under running Java clients, and Java brokers come and go under our NameServer."""

import time

import pytest

from interop.drain import bodies
from interop.peers import JavaBroker, PeerError, message
from orbitmq.testing import LocalCluster

TIMEOUT_S = 60


@pytest.fixture(scope="module")
def own_cluster():
    """A cluster of this module's own: other tests' servers are not restarted."""
    with LocalCluster.running() as cluster:
        yield cluster


def send_until_accepted(producer, *messages):
    """Send; a client that meets a server in the moment of its restart reports that and is asked again."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            return producer.send(*messages)
        except PeerError:
            assert time.monotonic() < deadline, "the producer never came back"


def test_java_clients_go_on_after_our_broker_and_name_server_restart(java, own_cluster, name):
    producer = java.producer(f"{name}-producers", own_cluster.name_servers, poll_ms=1000)
    producer.send(message(name, b"before"))
    consumer = java.consumer(f"{name}-group", own_cluster.name_servers, name, poll_ms=1000)
    consumer.wait_for_messages(1)
    own_cluster.restart_broker()
    send_until_accepted(producer, message(name, b"after the broker"))
    own_cluster.restart_name_server()
    send_until_accepted(producer, message(name, b"after the name server"))
    own_cluster.stop_name_server()
    producer.send(*(message(name, b"without any name server %d" % n) for n in range(5)))
    own_cluster.start_name_server()
    expected = {b"before", b"after the broker", b"after the name server"}
    expected |= {b"without any name server %d" % n for n in range(5)}
    java.wait_for(lambda: expected <= set(bodies(consumer.received)), "all messages")
    producer.stop()
    consumer.stop()


@pytest.mark.proof
def test_a_java_slave_finds_its_master_through_our_name_server_and_leaves_immediately(java, java_cluster, tmp_path):
    def known():
        return java.mqadmin("clusterList", "-n", java_cluster.our_name_server)

    master = java_cluster.broker
    slave = JavaBroker(
        tmp_path, java_cluster.our_name_server, name=master.name, cluster=master.cluster, broker_id=1
    )  # fmt: skip
    slave.start()
    try:
        assert master.address in known()
        assert slave.address in known()
        java.wait_for(
            lambda: slave.address.split(":")[0] in ha_slaves(java, master.address), "the slave to copy from its master"
        )
    finally:
        slave.kill()
    java.wait_for(lambda: slave.address not in known(), "the slave to leave the route")
    assert master.address in known()


def ha_slaves(java, master):
    """The part of mqadmin haStatus that lists who copies from a master."""
    printed = java.mqadmin("haStatus", "-b", master)
    return printed.partition("#SlaveAddr")[2]
