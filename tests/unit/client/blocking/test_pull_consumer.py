"""Pull consumers and simple consumers for code without an event loop."""

import pytest

from orbitmq import Message
from orbitmq.blocking import Producer, PullConsumer, SimpleConsumer
from orbitmq.testing import LocalCluster

pytestmark = pytest.mark.real


def test_a_script_reads_queues_of_its_choice(served):
    served.topic("orders", count=1)
    served.apply(lambda: served.a.put("orders", 0, b"1", b"2", stored_at_ms=5))
    with PullConsumer("auditors", served.name_servers) as consumer:
        (queue,) = consumer.queues("orders")
        consumer.assign([queue])
        assert consumer.assignment == {queue}
        assert [message.body for message in consumer.poll(5_000)] == [b"1", b"2"]
        assert consumer.position(queue) == 2
        consumer.commit()
        assert consumer.committed(queue) == 2
        assert consumer.offsets([queue]) == {queue: (0, 2)}
        assert consumer.seek_to_begin(queue) == 0
        assert consumer.seek_to_end(queue) == 2
        assert consumer.seek_to_timestamp(queue, 5) == 0
        consumer.commit({queue: 1})
        assert consumer.committed(queue) == 1
        consumer.seek(queue, 1)
        assert [message.body for message in consumer.poll(5_000)] == [b"2"]


def test_a_poll_gives_no_more_than_is_asked_for_and_gives_up_in_time(served):
    served.topic("orders", count=1)
    served.apply(served.a.put, "orders", 0, b"1", b"2")
    with PullConsumer("auditors", served.name_servers) as consumer:
        consumer.assign(consumer.queues("orders"))
        assert len(consumer.poll(20_000, count_max=1)) == 1
        assert len(consumer.poll(count_max=5)) == 1
        assert consumer.poll(timeout_ms=1) == []


def test_a_script_receives_keeps_and_acknowledges():
    with LocalCluster.running() as cluster, Producer("p", cluster.name_servers) as producer:
        producer.send(Message("orders", b"x"))
        with SimpleConsumer("billing", cluster.name_servers) as consumer:
            consumer.subscribe("orders")
            (message,) = consumer.receive(timeout_ms=60_000)
            consumer.ack(consumer.change_invisible_time(message, 600_000))
            assert consumer.receive(timeout_ms=1) == []
            consumer.unsubscribe("orders")
