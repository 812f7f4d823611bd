"""Retries of Java consumers: a message that one could not process comes back to it, later, through our broker."""

from __future__ import annotations

from interop.drain import read_all
from interop.peers import message
from orbitmq import Message
from orbitmq.blocking import Producer
from orbitmq.testing import LocalCluster


def test_a_java_consumer_that_fails_gets_the_message_again(java, name):
    """RECONSUME_LATER: CONSUMER_SEND_MSG_BACK, then the retry topic after the third level: 2 seconds at this broker."""
    with LocalCluster.running(settings={"message_delay_level": "1s 1s 2s"}) as cluster:
        with Producer("our-producers", cluster.name_servers) as producer:
            sent = producer.send(Message(name, b"hard", tag="t", keys=("k",)))
        consumer = java.consumer(f"{name}-group", cluster.name_servers, name, fail_first=1)
        read = consumer.wait_for_messages(2)
        consumer.stop()
    first, second = sorted(read, key=lambda item: item["reconsume_times"])
    assert (first["reconsume_times"], second["reconsume_times"]) == (0, 1)
    assert first["body"] == second["body"] == b"hard"
    assert first["message_id"] == second["message_id"] == sent.message_id
    assert 2_000 <= second["stored_at_ms"] - first["stored_at_ms"] < 10_000, "the broker's level, not Java's"
    assert second["topic"] == name


def test_a_java_message_with_a_delay_level_comes_when_its_time_has_come(java, ours, name):
    producer = java.producer(f"{name}-group", ours.name_servers)
    sent = producer.send(message(name, b"now"), message(name, b"in a second", delay_level=1))
    producer.stop()
    assert [result["status"] for result in sent] == ["SEND_OK", "SEND_OK"]
    found = {one.body: one for one in read_all(ours.name_servers, name, 2)}
    later = found[b"in a second"]
    assert later.stored_at_ms - later.born_at_ms >= 1000
    assert later.message_id == sent[1]["message_id"]
    assert later.topic == name
