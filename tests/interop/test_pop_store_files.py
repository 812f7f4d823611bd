"""A store with popped messages changes hands: what was acknowledged never comes again, everything else does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from interop.peers import JavaBroker
from interop.successor import our_broker_on
from orbitmq import Message
from orbitmq.blocking import Producer, SimpleConsumer
from orbitmq.broker.app import Broker
from orbitmq.broker.persistence import parse_offsets
from orbitmq.files import read_generations
from orbitmq.model.message import StoredMessage
from orbitmq.wire.pop.ordered_batches import parse_ordered_batches
from waiting import wait_for

CLUSTER, NAME = "PopCluster", "popping"
SEGMENT_SIZE = 1024 * 1024
LONG_MS = 600_000
"""As long as no test runs: what comes again before was given back."""


def our_broker(store: Path, name_servers: str) -> AbstractContextManager[Broker]:
    return our_broker_on(
        store, name_servers, broker_name=NAME, broker_cluster_name=CLUSTER, mapped_file_size_commit_log=SEGMENT_SIZE,
        mapped_file_size_consume_queue=60_000, mapped_file_size_timer_log=SEGMENT_SIZE, max_hash_slot_num=10_000,
        max_index_num=40_000,
    )  # fmt: skip


class Group:
    """A group that pops two topics: one in any order, one in order."""

    def __init__(self, address: str, name: str) -> None:
        self.address, self.plain, self.ordered = address, name, f"{name}-o"
        self.plain_group, self.ordered_group = f"{name}-g", f"{name}-og"

    def send(self, topic: str, *bodies: bytes) -> None:
        with Producer("makers", self.address, send_timeout_ms=30_000) as producer:
            for body in bodies:
                producer.send(Message(topic, body))

    @contextmanager
    def consumer(self, *, is_ordered: bool = False) -> Iterator[SimpleConsumer]:
        group, topic = (self.ordered_group, self.ordered) if is_ordered else (self.plain_group, self.plain)
        with SimpleConsumer(group, self.address, ordered=is_ordered) as consumer:
            consumer.subscribe(topic)
            yield consumer

    def receive(self, count: int, invisible_ms: int) -> list[StoredMessage]:
        """Receive so many messages of the plain topic, popped before or not; acknowledge none."""
        found: list[StoredMessage] = []
        with self.consumer() as consumer:
            while len(found) < count:
                # Java wakes no pop for messages that come again: short polls find them sooner.
                found += consumer.receive(timeout_ms=500, invisible_ms=invisible_ms)
        return found

    def half_ack(self, owner: bytes) -> set[bytes]:
        """Send messages, receive them all, acknowledge every second one; return the others."""
        self.send(self.plain, *(b"%s %d" % (owner, number) for number in range(8)))
        found = self.receive(8, 2_000)
        with self.consumer() as consumer:
            consumer.ack([message for message in found if int(message.body[-1:]) % 2 == 0])
        return {message.body for message in found if int(message.body[-1:]) % 2}

    def take_again(self, expected: set[bytes]) -> None:
        """Receive what was not acknowledged, and nothing else, and acknowledge it."""
        found = self.receive(len(expected), LONG_MS)
        assert {message.body for message in found} == expected
        assert {message.reconsume_times for message in found} == {1}
        with self.consumer() as consumer:
            consumer.ack(found)
            assert consumer.receive(timeout_ms=1) == []

    def take_in_order(self, given_back: list[StoredMessage]) -> list[tuple[bytes, int, StoredMessage]]:
        """Receive from a queue in order: it is blocked until what another broker gave is given back."""
        with self.consumer(is_ordered=True) as consumer:
            for message in given_back:
                assert consumer.receive(timeout_ms=1) == []
                consumer.change_invisible_time(message, 0)
            found = consumer.receive(timeout_ms=30_000, invisible_ms=LONG_MS)
            consumer.ack(found[0])
        return [(message.body, message.reconsume_times, message) for message in found]


def saved(store: Path, kept: Group) -> bool:
    """Whether what a Java broker was told stands in its files: it writes them from time to time."""
    offsets = read_generations(store / "config/consumerOffset.json", parse_offsets)
    batches = read_generations(store / "config/consumerOrderInfo.json", parse_ordered_batches)
    if offsets is None or not batches:
        return False
    popped = offsets.query(kept.plain_group, kept.plain, 0)
    return popped == 8 and offsets.query(kept.ordered_group, kept.ordered, 0) == 1 and batches[0][1].acked == 1


@pytest.mark.proof
def test_popped_messages_go_from_java_to_us_and_back(own_name_server, create_topic, tmp_path, name):
    address = own_name_server.address
    settings: dict[str, Any] = {"mappedFileSizeCommitLog": SEGMENT_SIZE, "flushConsumerOffsetInterval": 500}
    java = JavaBroker(tmp_path / "java", address, name=NAME, cluster=CLUSTER, properties=settings)
    java.start()
    kept = Group(address, name)
    for topic in (kept.plain, kept.ordered):
        create_topic(address, topic, 1, CLUSTER)
    kept.send(kept.ordered, b"0", b"1", b"2")
    left = kept.half_ack(b"popped at java")
    given = kept.take_in_order([])
    assert [(body, times) for body, times, _ in given] == [(b"0", 0), (b"1", 0), (b"2", 0)]
    wait_for(lambda: saved(java.store, kept), "Java to save its files")
    java.kill()

    with our_broker(java.store, address):
        kept.take_again(left)
        left = kept.half_ack(b"popped at ours")
        again = kept.take_in_order([message for _, _, message in given[1:]])
        assert [(body, times) for body, times, _ in again] == [(b"1", 1), (b"2", 1)]

    java.start()
    kept.take_again(left)
    last = kept.take_in_order([message for _, _, message in again[1:]])
    assert [(body, times) for body, times, _ in last] == [(b"2", 2)]
    java.kill()
