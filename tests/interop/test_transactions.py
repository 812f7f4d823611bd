"""Transactions of Java's producers at our broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from interop.peers import message
from orbitmq.testing import BlockingCluster, LocalCluster

QUICK = {"transaction_time_out": 200, "transaction_check_interval": 500, "transaction_op_batch_interval": 100}


@pytest.fixture(scope="module")
def asking() -> Iterator[BlockingCluster]:
    """A broker of ours that asks producers soon."""
    with LocalCluster.running(settings=QUICK) as cluster:
        yield cluster


def half(topic: str, body: bytes, outcome: str, checked: str = "UNKNOW") -> dict[str, object]:
    properties = {"OUTCOME": outcome, "CHECKED": checked}
    return message(topic, body, tag="a", keys=body.decode(), flag=7, properties=properties)


def test_a_java_producer_commits_rolls_back_and_is_asked(java, asking, create_topic, name):
    create_topic(asking.name_servers, name)
    producer = java.producer(f"{name}-group", asking.name_servers, transactional=True)
    producer.send(
        half(name, b"committed", "COMMIT_MESSAGE"),
        half(name, b"rolled back", "ROLLBACK_MESSAGE"),
        half(name, b"committed when asked", "UNKNOW", "COMMIT_MESSAGE"),
        half(name, b"rolled back when asked", "UNKNOW", "ROLLBACK_MESSAGE"),
    )
    consumer = java.consumer(f"{name}-consumer", asking.name_servers, name)
    found = consumer.wait_for_messages(2)
    assert sorted(one["body"] for one in found) == [b"committed", b"committed when asked"]
    for one in found:
        assert (one["flag"], one["sys_flag"], one["properties"]["REAL_TOPIC"]) == (7, 8, name)
        assert one["properties"]["__transactionId__"] == one["properties"]["UNIQ_KEY"]
    producer.stop()
    consumer.stop()
