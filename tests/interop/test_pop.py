"""POP between Java and us: Java's calls against our broker, our SimpleConsumer against Java's."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest

from interop.peers import ask, wait_until_dispatched
from orbitmq import Message
from orbitmq.blocking import Producer, SimpleConsumer
from orbitmq.wire.pop.handles import parse_handle

COUNT = 40


@pytest.fixture
def pops(java, ours, create_topic, name):
    """Java's calls for popping, against our broker, and a topic with messages."""
    create_topic(ours.name_servers, name, 2)
    with Producer(f"{name}-p", ours.name_servers) as producer:
        for number in range(COUNT):
            producer.send(Message(name, b"%d" % number, tag="even" if number % 2 == 0 else "odd"))
    address = ours.brokers["broker-a"]
    place = {"address": address, "broker": "broker-a", "group": f"{name}-group", "topic": name, "queue_id": -1}

    def call(action: str, **arguments: Any) -> Any:
        return java.call(f"pop.{action}", **place | arguments)

    return call


def bodies(popped: dict[str, Any]) -> set[bytes]:
    return {base64.b64decode(message["body"]) for message in popped["messages"]}


def handles(popped: dict[str, Any]) -> list[str]:
    return [message["properties"]["POP_CK"] for message in popped["messages"]]


class Either:
    """One of the two brokers, called as `pops` is."""

    def __init__(self, call: Callable[..., Any], address: str, cluster: str) -> None:
        self.address, self.cluster = address, cluster
        self._call = call

    def __call__(self, action: str, **arguments: Any) -> Any:
        return self._call(action, **arguments)


@pytest.fixture(params=["ours", "java_cluster"])
def either(request, java, create_topic, name):
    """Java's calls for popping, against our broker or against Java's, and a topic with one queue."""
    cluster = request.getfixturevalue(request.param)
    if request.param == "ours":
        name_servers, broker, address = cluster.name_servers, "broker-a", cluster.brokers["broker-a"]
        create_topic(name_servers, name, 1)
    else:
        name_servers, broker, address = cluster.name_server.address, cluster.broker.name, cluster.broker.address
        create_topic(name_servers, name, 1, "JavaCluster")
    place = {"address": address, "broker": broker, "group": f"{name}-group", "topic": name, "queue_id": -1}

    def call(action: str, **arguments: Any) -> Any:
        if action == "send":
            with Producer(f"{name}-p", name_servers) as producer:
                sent = [producer.send(Message(name, body)) for body in arguments["bodies"]]
            wait_until_dispatched(address)
            return sent
        return java.call(f"pop.{action}", **place | arguments)

    return Either(call, address, "DefaultCluster" if request.param == "ours" else "JavaCluster")


def test_java_pops_acknowledges_and_gets_the_others_again(pops):
    every = {b"%d" % number for number in range(COUNT)}
    first = pops("pop", count=32, invisible_ms=60_000, poll_ms=0)
    second = pops("pop", count=32, invisible_ms=60_000, poll_ms=0)
    assert (first["status"], first["rest"], second["rest"]) == ("FOUND", COUNT - 32, 0)
    assert bodies(first) | bodies(second) == every
    assert pops("pop", count=32, invisible_ms=60_000, poll_ms=0)["status"] == "POLLING_NOT_FOUND"
    assert pops("batch_ack", handles=handles(first)[1:])["status"] == "OK"
    assert pops("ack", handle=handles(second)[0])["status"] == "OK"
    left = {base64.b64decode(first["messages"][0]["body"])} | bodies(second)
    left.remove(base64.b64decode(second["messages"][0]["body"]))
    for handle in [handles(first)[0], *handles(second)[1:]]:
        assert pops("change", handle=handle, invisible_ms=0)["status"] == "OK"
    again: list[dict[str, Any]] = []
    while len(again) < len(left):
        popped = pops("pop", count=32, invisible_ms=60_000, poll_ms=30_000)
        again += popped["messages"]
        assert pops("batch_ack", handles=handles(popped))["status"] == "OK"
    assert {base64.b64decode(message["body"]) for message in again} == left
    assert {message["reconsume_times"] for message in again} == {1}
    assert pops("pop", count=32, invisible_ms=60_000, poll_ms=0)["status"] == "POLLING_NOT_FOUND"


def test_java_keeps_a_message_for_longer_and_acknowledges_it_by_its_new_handle(pops):
    popped = pops("pop", count=1, invisible_ms=60_000, poll_ms=0)
    (handle,) = handles(popped)
    changed = pops("change", handle=handle, invisible_ms=120_000)
    assert changed["status"] == "OK"
    assert parse_handle(changed["handle"]).invisible_ms == 120_000
    assert pops("ack", handle=changed["handle"])["status"] == "OK"
    assert pops("change", handle=changed["handle"], invisible_ms=1_000)["status"] == "NO_EXIST"


def test_java_waits_for_messages_and_filters_by_tag(java, ours, pops, name):
    even = pops("pop", count=32, invisible_ms=60_000, poll_ms=0, tag="even", group=f"{name}-even")
    assert bodies(even) == {b"%d" % number for number in range(0, COUNT, 2)}
    assert pops("notify", poll_ms=0, group=f"{name}-even") is False
    with Producer(f"{name}-p", ours.name_servers) as producer:
        producer.send(Message(name, b"later", tag="even"))
    assert pops("notify", poll_ms=30_000, group=f"{name}-even") is True
    found = pops("pop", count=32, invisible_ms=60_000, poll_ms=30_000, tag="even", group=f"{name}-even")
    assert bodies(found) == {b"later"}
    assert int(pops("polling", group=f"{name}-even")) == 0


def test_pops_and_acks_are_counted_by_both_brokers(either, name):
    """315 knows them under the same names and keys; sums are told later, by each broker's own clock."""
    either("send", bodies=[b"0", b"1"])

    def is_counted(figure: str, key: str) -> bool:
        return ask(either.address, 315, {"statsName": figure, "statsKey": key})[0]["code"] == 0

    place = f"{name}@{name}-group"
    assert not any(is_counted(figure, place) for figure in ("GROUP_CK_NUMS", "GROUP_ACK_NUMS"))
    popped = either("pop", count=2, invisible_ms=60_000, poll_ms=0)
    assert is_counted("GROUP_CK_NUMS", place)
    assert not is_counted("GROUP_ACK_NUMS", place)
    assert either("ack", handle=handles(popped)[0])["status"] == "OK"
    assert is_counted("GROUP_ACK_NUMS", place)
    while not all(is_counted(figure, either.cluster) for figure in ("BROKER_CK_NUMS", "BROKER_ACK_NUMS")):
        pass  # ours adds them up once a second


def test_java_pops_in_order_and_both_brokers_answer_alike(either):
    either("send", bodies=[b"0", b"1", b"2"])
    order = {"count": 2, "invisible_ms": 60_000, "poll_ms": 0, "order": True}

    def found(attempt: str, **arguments: Any) -> tuple[str, list[tuple[bytes, int]], list[str]]:
        popped = either("pop", **order | arguments, attempt=attempt)
        tried = [(base64.b64decode(message["body"]), message["reconsume_times"]) for message in popped["messages"]]
        return popped["status"], tried, handles(popped)

    status, tried, first = found("a")
    assert (status, tried) == ("FOUND", [(b"0", 0), (b"1", 0)])
    assert {parse_handle(handle).revive_queue_id for handle in first} == {999}
    # Others of the group are blocked; the same attempt gets the same messages, under handles of its own.
    assert found("b")[:2] == ("POLLING_NOT_FOUND", [])
    assert either("notify", poll_ms=0, order=True, attempt="b") is False
    assert either("notify", poll_ms=0, order=True, attempt="a") is True
    status, tried, again = found("a")
    assert (status, tried) == ("FOUND", [(b"0", 0), (b"1", 0)])
    # An ack from the middle frees nothing, one of the first goes as far as all is done.
    assert either("ack", handle=again[1])["status"] == "OK"
    assert found("b")[:2] == ("POLLING_NOT_FOUND", [])
    # What is given back comes again in its place: with all that is behind it, and how often it was tried.
    changed = either("change", handle=again[0], invisible_ms=0)
    assert changed["status"] == "OK"
    assert (parse_handle(changed["handle"]).revive_queue_id, parse_handle(changed["handle"]).start_offset) == (999, 0)
    status, tried, third = found("c", count=32)
    assert (status, tried) == ("FOUND", [(b"0", 1), (b"1", 1), (b"2", 0)])
    assert either("ack", handle=changed["handle"])["status"] == "OK"  # of a pop that is over: nothing happens
    assert found("d")[:2] == ("POLLING_NOT_FOUND", [])
    assert either("batch_ack", handles=third)["status"] == "OK"
    assert either("notify", poll_ms=0, order=True, attempt="d") is False
    # A waiting pop is woken by the ack that frees the queue, and by a new message.
    either("send", bodies=[b"3"])
    status, tried, last = found("d", poll_ms=30_000)
    assert (status, tried) == ("FOUND", [(b"3", 0)])
    assert either("ack", handle=last[0])["status"] == "OK"


def test_java_peeks_and_both_brokers_answer_alike(either):
    either("send", bodies=[b"0", b"1", b"2"])
    no_times = {"popTime": "0", "invisibleTime": "0", "reviveQid": "0"}

    def peeked(count: int, **arguments: Any) -> tuple[int, str, dict[str, str], set[bytes]]:
        found = either("peek", count=count, **arguments)
        return found["code"], found["remark"], found["fields"], bodies(found)

    def popped(count: int) -> set[bytes]:
        """Pop until something comes: Java's broker answers with nothing where it does not get the queue's lock immediately."""
        while not (found := either("pop", count=count, invisible_ms=60_000, poll_ms=0)["messages"]):
            pass
        return {base64.b64decode(one["body"]) for one in found}

    for _ in range(2):
        assert peeked(2) == (0, "FOUND", {**no_times, "restNum": "3"}, {b"0", b"1"})
    assert popped(1) == {b"0"}
    assert peeked(32, queue_id=0) == (0, "FOUND", {**no_times, "restNum": "2"}, {b"1", b"2"})
    assert peeked(0) == (19, "NO_MESSAGE_IN_QUEUE", {**no_times, "restNum": "2"}, set())
    assert popped(32) == {b"1", b"2"}
    assert peeked(1) == (19, "NO_MESSAGE_IN_QUEUE", {**no_times, "restNum": "0"}, set())


def test_java_reads_the_modes_of_all_groups_and_rolls_nothing_back(java, ours, create_topic, name):
    create_topic(ours.name_servers, name, 1)
    group = f"{name}-group"
    java.mqadmin("updateSubGroup", "-n", ours.name_servers, "-c", "DefaultCluster", "-g", group)
    place = ("-n", ours.name_servers, "-c", "DefaultCluster", "-t", name, "-g", group)
    java.mqadmin("setConsumeMode", *place, "-m", "POP", "-q", "3")
    mode = {"consumerGroup": group, "mode": "POP", "popShareQueueNum": 3, "topic": name}
    found = java.call("pop.modes", address=ours.brokers["broker-a"], topic=name)
    assert found == {"codes": [0, 0], "modes": {group: mode}}


def test_our_consumer_receives_from_a_java_broker(java_cluster, create_topic, name):
    address = java_cluster.name_server.address
    create_topic(address, name, 2, "JavaCluster")
    with Producer(f"{name}-p", address) as producer, SimpleConsumer(f"{name}-group", address) as consumer:
        consumer.subscribe(name)
        for number in range(10):
            producer.send(Message(name, b"%d" % number))
        found: dict[bytes, Any] = {}
        while len(found) < 10:
            found |= {message.body: message for message in consumer.receive(timeout_ms=30_000)}
        assert {message.topic for message in found.values()} == {name}
        given_back = found.pop(b"7")
        consumer.change_invisible_time(given_back, 1_000)
        kept = consumer.change_invisible_time(found.pop(b"8"), 600_000)
        consumer.ack([kept, *found.values()])
        again: list[Any] = []
        while not again:  # a Java broker revives some seconds after the time is over
            again = consumer.receive(timeout_ms=30_000)
        assert [(message.body, message.topic, message.reconsume_times) for message in again] == [(b"7", name, 1)]
        assert parse_handle(again[0].properties["POP_CK"]).retry == "1"
        consumer.ack(again)
        assert consumer.receive(timeout_ms=1) == []


def test_our_consumer_keeps_order_with_a_java_broker(java_cluster, create_topic, name):
    address = java_cluster.name_server.address
    create_topic(address, name, 1, "JavaCluster")
    with (
        Producer(f"{name}-p", address) as producer,
        SimpleConsumer(f"{name}-group", address, ordered=True) as one,
        SimpleConsumer(f"{name}-group", address, ordered=True) as other,
    ):
        for consumer in (one, other):
            consumer.subscribe(name)
        for number in range(3):
            producer.send(Message(name, b"%d" % number))
        wait_until_dispatched(java_cluster.broker.address)
        first, second = one.receive(2, timeout_ms=30_000)
        assert (first.body, second.body) == (b"0", b"1")
        assert other.receive(timeout_ms=1) == []
        one.ack(first)
        one.change_invisible_time(second, 0)
        again = other.receive(timeout_ms=30_000)
        assert [(message.body, message.reconsume_times) for message in again] == [(b"1", 1), (b"2", 0)]
        other.ack(again)
        assert one.receive(timeout_ms=1) == []


def test_a_java_push_consumer_that_is_switched_to_pop_gets_all_and_the_failed_again(java, ours, create_topic, name):
    create_topic(ours.name_servers, name, 2)
    group = f"{name}-group"
    java.mqadmin("updateSubGroup", "-n", ours.name_servers, "-c", "DefaultCluster", "-g", group)
    place = ("-n", ours.name_servers, "-c", "DefaultCluster", "-t", name, "-g", group)
    java.mqadmin("setConsumeMode", *place, "-m", "POP", "-q", "0")
    with Producer(f"{name}-p", ours.name_servers) as producer:
        sent = {producer.send(Message(name, b"%d" % number)).message_id for number in range(10)}
    consumer = java.consumer(group, ours.name_servers, name, pop=True)
    read = consumer.wait_for_messages(10)
    consumer.stop()
    assert {message["message_id"] for message in read} == sent
    assert {parse_handle(message["properties"]["POP_CK"]).broker_name for message in read} == {"broker-a"}
    again = SimpleConsumer(group, ours.name_servers)
    with again:
        again.subscribe(name)
        assert again.receive(timeout_ms=1) == []  # all were acknowledged, or still are the first one's
