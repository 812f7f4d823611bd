"""Static topics whose queues move between our broker and Java's, made and moved by mqadmin, used by Java's clients."""

from __future__ import annotations

import pytest

from interop.drain import bodies
from interop.peers import PeerError, message
from orbitmq.testing import LocalCluster

LOGICAL = "__syslo__global__"


@pytest.fixture(scope="module")
def neighbour(java_cluster):
    """A broker of ours that is registered wherever Java's is: Java's finds it at any of its NameServers."""
    both = f"{java_cluster.name_server.address};{java_cluster.our_name_server}"
    settings = {"namesrv_addr": both, "broker_cluster_name": "NeighbourCluster", "broker_name": "neighbour"}
    with LocalCluster.running(settings=settings):
        yield "neighbour"


def send(java, producer, item):
    """Send one message. Java's producer tells of a queue that has moved (501), until it hears of the new route."""
    found = []

    def is_sent():
        try:
            found.extend(producer.send(item))
        except PeerError as error:
            if "CODE: 501" not in str(error):
                raise
        return bool(found)

    java.wait_for(is_sent, "the producer to know who leads the queues")
    return found[0]


def test_javas_clients_follow_a_static_topic_from_our_broker_to_javas_and_back(java, java_cluster, neighbour, name):
    """Each leader of a queue gets older messages from the broker that has them: ours from Java's, and Java's from ours."""
    name_server = java_cluster.name_server.address
    java.mqadmin("updateStaticTopic", "-n", name_server, "-t", name, "-qn", "2", "-b", neighbour)
    producer = java.producer(f"{name}-producers", name_server, poll_ms=500)
    followed = java.consumer(f"{name}-followers", name_server, name, poll_ms=500)
    places = set()
    for number, target in enumerate((None, java_cluster.broker.name, neighbour)):
        if target is not None:
            java.mqadmin("remappingStaticTopic", "-n", name_server, "-t", name, "-b", target)
        sent = [send(java, producer, message(name, b"%d" % n)) for n in range(4 * number, 4 * number + 4)]
        # A queue that moved begins anew some ten thousand offsets on.
        assert {item["queue_offset"] // 10_000 for item in sent} == {number}
        places |= {(item["queue_id"], item["queue_offset"]) for item in sent}
        java.wait_for(lambda: len(followed.received) >= 4 * number + 4, f"what was sent to {target}")  # noqa: B023
    late = java.consumer(f"{name}-latecomers", name_server, name, poll_ms=500)
    late.wait_for_messages(12)
    for consumer in (followed, late):
        received = consumer.received
        assert {(item["queue_id"], item["queue_offset"]) for item in received} == places
        assert {item["broker"] for item in received} == {LOGICAL}
        assert sorted(bodies(received)) == sorted(b"%d" % n for n in range(12))
        consumer.stop()
    producer.stop()
