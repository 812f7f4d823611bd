"""Dead letters of Java's broker, read and sent again by our tools; Java's consumers get what was sent again."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from interop.drain import read_all
from interop.peers import message
from orbitmq.client.consume.redelivery import RedeliveryPolicy
from orbitmq.client.consume.send_backs import SendBacks
from orbitmq.client.session.session import ClientSession
from orbitmq.model.message import StoredMessage
from orbitmq.model.route import MessageQueue
from orbitmq.net.loop import run
from orbitmq.net.pool import ConnectionPool
from orbitmq.wire.headers import ConsumerSendBack
from orbitmq.wire.messages.message_id import parse_offset_message_id


def orbitmq(name_servers: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "orbitmq", "dlq", *words, "-n", name_servers]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


async def give_up(address: str, group: str, topic: str, offset_message_id: str) -> None:
    """Do what a consumer does with a message that has failed too often."""
    pool = ConnectionPool()
    _, offset = parse_offset_message_id(offset_message_id)
    answer = await pool.request(
        address, ConsumerSendBack(physical_offset=offset, group=group, delay_level=-1, origin_topic=topic)
    )
    await pool.close()
    assert answer.code == 0, answer.remark


@pytest.mark.parametrize("place", ["ours", pytest.param("java_cluster", marks=pytest.mark.proof)])
def test_dead_letters_are_listed_shown_and_sent_again(request, java, place, create_topic, name):
    found = request.getfixturevalue(place)
    if place == "ours":
        name_servers, broker, address = found.name_servers, "broker-a", found.brokers["broker-a"]
        create_topic(name_servers, name, 1)
    else:
        name_servers, broker, address = found.name_server.address, found.broker.name, found.broker.address
        create_topic(name_servers, name, 1, cluster="JavaCluster")
    group = f"{name}-group"
    consumer = java.consumer(group, name_servers, name)
    producer = java.producer(f"{name}-producers", name_servers)
    producer.send(message(name, b"hard", tag="t", keys="k", properties={"own": "value"}), message(name, b"harder"))
    producer.stop()
    received = consumer.wait_for_messages(2)
    for one in received:
        run(give_up(address, group, name, one["offset_message_id"]))
    listed = orbitmq(name_servers, "list")
    assert [line.split()[:2] for line in listed.stdout.splitlines() if group in line] == [[group, "2"]], listed.stderr
    shown = [line.split() for line in orbitmq(name_servers, "show", group).stdout.splitlines()[1:]]
    assert [line[:3] for line in shown] == [
        [f"{broker}:0:{number}", name, one["offset_message_id"]] for number, one in enumerate(received)
    ]
    resent = orbitmq(name_servers, "resend", group, "--count", "1")
    assert resent.stderr == f"1 dead letters sent; go on with --from {broker}:0:1\n"
    again = consumer.wait_for_messages(3)[2]
    consumer.stop()
    assert (again["body"], again["topic"], again["reconsume_times"]) == (received[0]["body"], name, 0)
    assert again["properties"]["DLQ_ORIGIN_MESSAGE_ID"] == received[0]["offset_message_id"]
    assert {key: again["properties"].get(key) for key in ("TAGS", "KEYS", "own")} == {
        key: received[0]["properties"].get(key) for key in ("TAGS", "KEYS", "own")
    }


def test_a_dead_letter_topic_of_javas_that_is_write_only_is_named(java, java_cluster, create_topic, name):
    name_servers = java_cluster.name_server.address
    topic = f"%DLQ%{name}"
    create_topic(name_servers, topic, 1, cluster="JavaCluster")
    java.mqadmin("updateTopicPerm", "-n", name_servers, "-t", topic, "-p", "2", "-c", "JavaCluster")
    shown = orbitmq(name_servers, "show", name)
    assert (shown.returncode, "cannot be read on java-broker: the topic is write-only there" in shown.stderr) == (
        1,
        True,
    )
    java.mqadmin("updateTopicPerm", "-n", name_servers, "-t", topic, "-p", "6", "-c", "JavaCluster")
    assert orbitmq(name_servers, "show", name).returncode == 0


async def send_without_the_broker(
    name_servers: str, message_read: StoredMessage, group: str, levels: list[int]
) -> None:
    """Give a message back by an offset that the broker does not take, and so as a plain send."""
    session = ClientSession(name_servers, instance="send-backs")
    session.open()
    await session.routes.find(message_read.topic)
    queue = MessageQueue(message_read.topic, message_read.broker_name, message_read.queue_id)
    send_backs = SendBacks(session, group, RedeliveryPolicy(), lambda: None)
    for level in levels:
        assert await send_backs.send(replace(message_read, physical_offset=3), queue, level)
    await session.close()


@pytest.mark.parametrize("place", ["ours", "java_cluster"])
def test_what_a_broker_does_not_take_back_comes_again_and_is_given_up_all_the_same(
    request, java, place, create_topic, name
):
    found = request.getfixturevalue(place)
    name_servers = found.name_servers if place == "ours" else found.name_server.address
    create_topic(name_servers, name, 1, cluster="DefaultCluster" if place == "ours" else "JavaCluster")
    group = f"{name}-group"
    consumer = java.consumer(group, name_servers, name)
    producer = java.producer(f"{name}-producers", name_servers)
    producer.send(message(name, b"hard", tag="t", keys="k"))
    producer.stop()
    consumer.wait_for_messages(1)
    (read,) = read_all(name_servers, name, 1)
    create_topic(name_servers, f"%RETRY%{group}", 1, cluster="DefaultCluster" if place == "ours" else "JavaCluster")
    run(send_without_the_broker(name_servers, read, group, [1, -1]))
    again = consumer.wait_for_messages(2)[1]
    consumer.stop()
    assert (again["body"], again["topic"], again["reconsume_times"]) == (b"hard", name, 1)
    listed = orbitmq(name_servers, "list")
    assert [line.split()[:2] for line in listed.stdout.splitlines() if group in line] == [[group, "1"]], listed.stderr
