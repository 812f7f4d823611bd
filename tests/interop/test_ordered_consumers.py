"""Consumers that keep order, Java's and ours in one group, on both brokers; and what fails in ours."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from interop.drain import read_all
from orbitmq import ConsumeFrom, Message, MessageQueue
from orbitmq.blocking import Producer
from orbitmq.client.loop_thread import LoopThread
from orbitmq.client.push_consumer import PushConsumer

QUEUE_COUNT = 4


@pytest.fixture(params=["ours", "java_cluster"])
def place(request: pytest.FixtureRequest) -> tuple[str, str]:
    """The NameServers and the cluster's name of one broker after the other."""
    found = request.getfixturevalue(request.param)
    if request.param == "ours":
        return found.name_servers, "DefaultCluster"
    return found.name_server.address, "JavaCluster"


class Ours:
    """A running consumer of ours, and what it was given: (queue, number, time in ms) each."""

    def __init__(self, group: str, name_servers: str, topic: str, **settings: Any) -> None:
        self.received: list[tuple[int, int, int]] = []
        self._loop_thread = LoopThread("our ordered consumer")
        self._consumer = self._loop_thread.apply(
            lambda: PushConsumer(
                group,
                name_servers,
                consume_from=ConsumeFrom.FIRST,
                ordered=True,
                message_handler=self._take,
                **settings,
            )
        )
        self._loop_thread.apply(self._consumer.subscribe, topic)
        self._loop_thread.call(self._consumer.open())

    def _take(self, message: Any) -> None:
        self.received.append((message.queue_id, int(message.body), time.time_ns() // 1_000_000))

    def queues(self) -> frozenset[MessageQueue]:
        return self._loop_thread.apply(lambda: self._consumer.assignment)

    def stop(self) -> None:
        self._loop_thread.call(self._consumer.close())
        self._loop_thread.stop()


@contextmanager
def numbers_sent(name_servers: str, topic: str) -> Iterator[list[int]]:
    """Send 0, 1, 2 ... to each queue until the end; yield how many there are of each."""
    sent = [0] * QUEUE_COUNT
    end = threading.Event()

    def send() -> None:
        with Producer("our-producers", name_servers, send_timeout_ms=20_000) as producer:
            queues = sorted(producer.queues(topic))
            while not end.wait(0.005):
                for queue in queues:
                    producer.send(Message(topic, b"%d" % sent[queue.queue_id]), queue=queue)
                    sent[queue.queue_id] += 1

    sending = threading.Thread(target=send)
    sending.start()
    try:
        yield sent
    finally:
        end.set()
        sending.join()


def of_java(consumer: Any) -> list[tuple[int, int, int]]:
    return [(read["queue_id"], int(read["body"]), read["received_at_ms"]) for read in list(consumer.received)]


def test_java_and_ours_hand_queues_over_to_one_another_and_every_queue_stays_in_order(java, place, name, create_topic):
    name_servers, cluster = place
    create_topic(name_servers, name, QUEUE_COUNT, cluster=cluster)
    group = f"{name}-group"
    with numbers_sent(name_servers, name) as sent:
        first = java.consumer(group, name_servers, name, orderly=True)
        first.wait_for_messages(QUEUE_COUNT)
        ours = Ours(group, name_servers, name)
        java.wait_for(lambda: len({queue for queue, *_ in ours.received}) == 2, "two queues to be ours")
        moved = {queue.queue_id for queue in ours.queues()}
        first.stop()
        java.wait_for(lambda: len({queue for queue, *_ in ours.received}) == QUEUE_COUNT, "all queues to be ours")
        second = java.consumer(group, name_servers, name, orderly=True)
        java.wait_for(lambda: len({queue for queue, *_ in of_java(second)}) == 2, "two queues to be Java's again")
        ours.stop()
        java.wait_for(
            lambda: len({queue for queue, *_ in of_java(second)}) == QUEUE_COUNT, "all queues to be Java's again"
        )

    def received() -> list[tuple[int, int, int]]:
        return of_java(first) + ours.received + of_java(second)

    java.wait_for(lambda: len({found[:2] for found in received()}) == sum(sent), "every message")
    second.stop()
    assert len(moved) == 2
    for queue in range(QUEUE_COUNT):
        arrivals = sorted((at_ms, number) for own, number, at_ms in received() if own == queue)
        first_deliveries = list(dict.fromkeys(number for _, number in arrivals))
        assert first_deliveries == list(range(sent[queue])), f"queue {queue}"


def test_what_fails_in_order_holds_its_queue_and_is_a_dead_letter_at_last(place, name, create_topic, java):
    name_servers, cluster = place
    create_topic(name_servers, name, 1, cluster=cluster)
    group = f"{name}-group"
    with Producer("our-producers", name_servers) as producer:
        for number in range(3):
            producer.send(Message(name, b"%d" % number, keys=["k"]))
    seen: list[tuple[bytes, int]] = []

    class Failing(Ours):
        def _take(self, message: Any) -> None:
            seen.append((bytes(message.body), message.attempt))
            if message.body == b"0":
                raise ValueError("poison")

    consumer = Failing(group, name_servers, name, max_attempts=3, retry_delay_ms=10)
    java.wait_for(lambda: len(seen) == 5, "three attempts and the two behind them")
    (letter,) = read_all(name_servers, f"%DLQ%{group}", 1)
    consumer.stop()
    assert seen == [(b"0", 1), (b"0", 2), (b"0", 3), (b"1", 1), (b"2", 1)]
    assert (letter.body, letter.keys, letter.properties["RETRY_TOPIC"]) == (b"0", ("k",), name)


def test_what_fails_without_order_goes_back_comes_again_and_is_a_dead_letter_at_last(place, name, create_topic, java):
    name_servers, cluster = place
    create_topic(name_servers, name, 1, cluster=cluster)
    group = f"{name}-group"
    with Producer("our-producers", name_servers) as producer:
        for number in range(3):
            producer.send(Message(name, b"%d" % number, keys=["k"]))
    seen: list[tuple[bytes, int, str]] = []

    def handle(batch: Any) -> None:
        for message in batch:
            seen.append((bytes(message.body), message.attempt, message.topic))
            if message.body == b"0":
                batch.retry(message, delay_level=1)

    background = LoopThread("our consumer")
    consumer = background.apply(
        lambda: PushConsumer(group, name_servers, consume_from=ConsumeFrom.FIRST, handler=handle, max_attempts=2)
    )
    background.apply(consumer.subscribe, name)
    background.call(consumer.open())
    java.wait_for(lambda: len(seen) == 4, "a second attempt")
    (letter,) = read_all(name_servers, f"%DLQ%{group}", 1)
    background.call(consumer.close())
    background.stop()
    assert seen == [(b"0", 1, name), (b"1", 1, name), (b"2", 1, name), (b"0", 2, name)]
    assert (letter.body, letter.keys, letter.reconsume_times) == (b"0", ("k",), 2)


def test_what_a_java_consumer_fails_on_in_order_is_a_dead_letter_of_our_broker_immediately(
    java, ours, name, create_topic
):
    create_topic(ours.name_servers, name, 1)
    with Producer("our-producers", ours.name_servers) as producer:
        for number in range(2):
            producer.send(Message(name, b"%d" % number, keys=["k"]))
    group = f"{name}-group"
    consumer = java.consumer(group, ours.name_servers, name, orderly=True, fail_first=100, max_reconsume_times=1)
    letters = [found.body for found in read_all(ours.name_servers, f"%DLQ%{group}", 2)]
    consumer.stop()
    assert letters == [b"0", b"1"]
    assert [(bytes(read["body"]), read["reconsume_times"]) for read in consumer.received] == [
        (b"0", 0),
        (b"0", 1),
        (b"1", 0),
        (b"1", 1),
    ]
