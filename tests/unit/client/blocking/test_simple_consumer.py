from orbitmq import Message
from orbitmq.blocking import Producer, SimpleConsumer
from orbitmq.testing import LocalCluster


def test_a_script_receives_keeps_and_acknowledges():
    with LocalCluster.running() as cluster, Producer("p", cluster.name_servers) as producer:
        producer.send(Message("orders", b"x"))
        with SimpleConsumer("billing", cluster.name_servers) as consumer:
            consumer.subscribe("orders")
            (message,) = consumer.receive(timeout_ms=60_000)
            consumer.ack(consumer.change_invisible_time(message, 600_000))
            assert consumer.receive(timeout_ms=1) == []
            consumer.unsubscribe("orders")
