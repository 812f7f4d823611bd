"""Request and reply between Java's clients and ours, over our broker and over Java's."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest

from interop.peers import message
from orbitmq import Message
from orbitmq.blocking import Producer, PushConsumer
from orbitmq.errors import RequestTimeout, SendFailed
from orbitmq.model.group import ConsumeFrom

LARGE = b"a reply that is worth compressing, " * 1_000
ANSWER_MS = 60_000
"""A loaded test machine is slow, not broken."""


class Place(NamedTuple):
    """A cluster to ask and to reply in, and a topic for it."""

    name_servers: str
    topic: str


@pytest.fixture(params=["ours", "java_cluster"])
def place(request, create_topic, name):
    """A fresh topic on our broker, and one on Java's."""
    found = request.getfixturevalue(request.param)
    if request.param == "ours":
        create_topic(found.name_servers, name)
        return Place(found.name_servers, name)
    create_topic(found.name_server.address, name, cluster="JavaCluster")
    return Place(found.name_server.address, name)


@contextmanager
def replier(place: Place, count: int) -> Iterator[None]:
    """A consumer of ours that replies to so many requests: in capital letters, or with LARGE to a question mark."""
    group = f"{place.topic}-group"
    with PushConsumer(group, place.name_servers, consume_from=ConsumeFrom.FIRST) as consumer:
        consumer.subscribe(place.topic)

        def work() -> None:
            left = count
            while left:
                batch = consumer.next_batch()
                assert batch is not None
                for request in batch:
                    body = LARGE if request.body == b"?" else request.body.upper()
                    consumer.reply(request, body, timeout_ms=ANSWER_MS)
                left -= len(batch)
                batch.commit()

        worker = threading.Thread(target=work)
        worker.start()
        yield
        worker.join()


def test_we_reply_to_ourselves(place):
    with replier(place, 2), Producer(f"{place.topic}-askers", place.name_servers) as asker:
        assert asker.request(Message(place.topic, b"how many?"), timeout_ms=ANSWER_MS).body == b"HOW MANY?"
        assert asker.request(Message(place.topic, b"?"), timeout_ms=ANSWER_MS).body == LARGE


def test_we_reply_to_java(java, place):
    asker = java.producer(f"{place.topic}-askers", place.name_servers)
    with replier(place, 2):
        asker.request(message(place.topic, b"how many?", keys="k"), ANSWER_MS)
        asker.request(message(place.topic, b"?"), ANSWER_MS)
        small, large = sorted(asker.wait_for_replies(2), key=lambda reply: len(reply["body"]))
    asker.stop()
    assert small["body"] == b"HOW MANY?"
    assert small["properties"]["MSG_TYPE"] == "reply"
    assert small["topic"].endswith("Cluster_REPLY_TOPIC")
    assert large["body"] == LARGE


def test_java_replies_to_us(java, place):
    consumer = java.consumer(f"{place.topic}-group", place.name_servers, place.topic)
    answerer = java.producer(f"{place.topic}-repliers", place.name_servers, compress_over=1_000)
    found = {}

    def ask(body: bytes) -> None:
        found[body] = asker.request(Message(place.topic, body, keys=["k"]), timeout_ms=ANSWER_MS)

    with Producer(f"{place.topic}-askers", place.name_servers) as asker:
        asking = [threading.Thread(target=ask, args=(body,)) for body in (b"small", b"large")]
        for one in asking:
            one.start()
        for request in consumer.wait_for_messages(2):
            result = answerer.reply(request, LARGE if request["body"] == b"large" else b"forty-two")
            assert result["status"] == "SEND_OK"
        for one in asking:
            one.join()
    assert {body: reply.body for body, reply in found.items()} == {b"small": b"forty-two", b"large": LARGE}
    assert all("ARRIVE_TIME" in reply.properties for reply in found.values())
    consumer.stop()
    answerer.stop()


def test_java_replies_to_java_through_our_broker(java, ours, create_topic, name):
    create_topic(ours.name_servers, name)
    consumer = java.consumer(f"{name}-group", ours.name_servers, name)
    asker = java.producer(f"{name}-askers", ours.name_servers)
    answerer = java.producer(f"{name}-repliers", ours.name_servers)
    asker.request(message(name, b"how many?"))
    (request,) = consumer.wait_for_messages(1)
    result = answerer.reply(request, b"forty-two")
    assert (result["status"], result["broker"]) == ("SEND_OK", request["broker"])
    (reply,) = asker.wait_for_replies(1)
    assert reply["body"] == b"forty-two"
    for client in (consumer, asker, answerer):
        client.stop()


def test_a_request_without_a_reply_and_a_reply_that_comes_too_late(place):
    """Both brokers tell a replier that the client that asked has left."""
    with Producer(f"{place.topic}-askers", place.name_servers) as asker, pytest.raises(RequestTimeout):
        asker.request(Message(place.topic, b"anybody?"), timeout_ms=3_000)
    with PushConsumer(f"{place.topic}-group", place.name_servers, consume_from=ConsumeFrom.FIRST) as consumer:
        consumer.subscribe(place.topic)
        batch = consumer.next_batch()
        assert batch is not None
        with pytest.raises(SendFailed, match=r"push reply message fail, channel of <.*> not found"):
            consumer.reply(batch[0], b"me", timeout_ms=ANSWER_MS)
        batch.commit()
