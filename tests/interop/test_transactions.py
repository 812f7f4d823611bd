"""Transactions between Java and us: its producers at our broker, ours at its broker, and a store that changes hands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from interop.drain import read_all
from interop.peers import JavaBroker, message
from interop.successor import our_broker_on
from orbitmq import Decision, Message, StoredMessage
from orbitmq.blocking import PullConsumer, TransactionProducer
from orbitmq.broker.app import Broker
from orbitmq.testing import BlockingCluster, LocalCluster
from waiting import wait_for

# Fifteen questions are over within seconds at this pace: a test on a slow machine would see its messages given up.
QUICK: dict[str, Any] = {
    "transaction_time_out": 200,
    "transaction_check_interval": 500,
    "transaction_check_max": 100_000,
    "transaction_op_batch_interval": 100,
}
JAVAS_QUICK = {
    "transactionTimeOut": 200,
    "transactionCheckInterval": 500,
    "transactionCheckMax": 100_000,
    "transactionOpBatchInterval": 100,
}
SEGMENT_SIZE = 1024 * 1024


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


def bodies(name_servers: str, topic: str) -> list[bytes]:
    """The bodies that are in the topic now."""
    with PullConsumer("counters", name_servers) as consumer:
        offsets = consumer.offsets(consumer.queues(topic))
    count = sum(end - begin for begin, end in offsets.values())
    return [found.body for found in read_all(name_servers, topic, count)]


class Orders:
    """What our producer says when a broker asks; a message that is not in `decisions` stays open."""

    def __init__(self) -> None:
        self.decisions: dict[bytes, Decision] = {}
        self.asked: list[bytes] = []

    def check(self, message: StoredMessage) -> Decision:
        self.asked.append(message.body)
        return self.decisions.get(message.body, Decision.UNKNOWN)


def our_broker(store: Path, name_servers: str) -> AbstractContextManager[Broker]:
    return our_broker_on(
        store, name_servers, broker_name="tx", broker_cluster_name="TxCluster", mapped_file_size_commit_log=SEGMENT_SIZE,
        mapped_file_size_consume_queue=60_000, **QUICK,
    )  # fmt: skip


@pytest.mark.proof
def test_a_store_with_open_transactions_goes_from_java_to_us_and_back(java_name_server, create_topic, tmp_path, name):
    orders, address = Orders(), java_name_server.address
    settings = {**JAVAS_QUICK, "mappedFileSizeCommitLog": SEGMENT_SIZE}
    java = JavaBroker(tmp_path / "java", address, name="tx", cluster="TxCluster", properties=settings)
    java.start()
    create_topic(address, name, cluster="TxCluster")

    def work(owner: str) -> None:
        """Commit, roll back, leave open until the broker asks, and leave open for the next broker."""
        with TransactionProducer(f"{name}-group", address, check=orders.check, send_timeout_ms=30_000) as producer:
            with producer.transaction(Message(name, b"committed at " + owner.encode(), flag=7)):
                pass
            with producer.transaction(Message(name, b"rolled back at " + owner.encode())) as transaction:
                transaction.rollback()
            for text in ("asked at ", "left open by "):
                with producer.transaction(Message(name, (text + owner).encode())) as transaction:
                    transaction.unknown()
            wait_for(lambda: f"left open by {owner}".encode() in orders.asked, "the check")
            orders.decisions[f"asked at {owner}".encode()] = Decision.COMMIT
            wait_for(lambda: b"asked at " + owner.encode() in bodies(address, name), "the check")

    work("java")
    java.kill()
    orders.decisions[b"left open by java"] = Decision.COMMIT
    with our_broker(java.store, address):
        work("ours")
        wait_for(lambda: b"left open by java" in bodies(address, name), "the check")
    orders.decisions[b"left open by ours"] = Decision.COMMIT
    java.start()
    with TransactionProducer(f"{name}-group", address, check=orders.check, topics=[name]):
        wait_for(lambda: b"left open by ours" in bodies(address, name), "the check")
    found = bodies(address, name)
    java.kill()
    texts = ("committed at", "asked at", "left open by")
    assert set(found) == {f"{text} {owner}".encode() for text in texts for owner in ("java", "ours")}
    # Java commits a message twice when it asks again before it has noted the first answer, which a busy host makes it do.
    by_java = {b"asked at java", b"left open by ours"}
    assert [text for text, count in Counter(found).items() if count > 1 and text not in by_java] == []
