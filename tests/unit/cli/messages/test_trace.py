"""Claims about `orbitmq trace`."""

from __future__ import annotations

import pytest

from orbitmq.blocking import Producer, PushConsumer
from orbitmq.model.message import Message


@pytest.fixture
def message_id(topic, rocketmq_session):
    """The id of a message whose producer and consumer have told of it."""
    with Producer("trace-makers", rocketmq_session.name_servers, trace=True) as producer:
        sent = producer.send(Message(topic, b"hello", keys=[f"key-of-{topic}"]))
    with PushConsumer(f"readers-{topic}", rocketmq_session.name_servers, trace=True) as consumer:
        consumer.subscribe(topic)
        batch = consumer.next_batch(timeout_ms=60_000)
        assert batch is not None
        batch.commit()
    return sent.message_id


def test_a_messages_way_is_shown(orbitmq, topic, message_id):
    result = orbitmq("trace", message_id, "-o", "json")
    assert result.code == 0
    steps = result.json
    assert [(step["step"], step["group"], step["topic"]) for step in steps] == [
        ("sent", "trace-makers", topic),
        ("stored", None, topic),
        ("consumed", f"readers-{topic}", None),
    ]
    assert {step["messageId"] for step in steps} == {message_id}
    assert [row[0] for row in orbitmq("trace", message_id).rows] == ["sent", "stored", "consumed"]
    assert orbitmq("trace", f"key-of-{topic}", "-o", "json").json == steps


def test_an_untraced_message_is_an_answer_of_no(orbitmq, message_id):
    result = orbitmq("trace", "0" * 32, "-o", "json")
    assert (result.code, result.json) == (1, [])
    assert "trace=True" in result.err


def test_a_trace_topic_that_is_not_there_is_named(orbitmq):
    result = orbitmq("trace", "0" * 32, "--trace-topic", "no_such_traces")
    assert (result.code, result.out) == (1, "")
    assert "no client traces here: there is no topic no_such_traces. Clients trace with `trace=True`" in result.err
