"""Our clients go on by themselves when Java's servers are killed and come back."""

import contextlib

import pytest

from interop.peers import JavaBroker, JavaNameServer
from orbitmq import ConsumeFrom, Message, SendFailed
from orbitmq.blocking import Producer, PushConsumer


def take(consumer, wanted):
    """Consume until every wanted body has come."""
    missing = set(wanted)
    while missing:
        batch = consumer.next_batch(60_000)
        assert batch is not None, f"{missing} did not come"
        missing -= {message.body for message in batch}
        batch.commit()


@pytest.mark.proof
def test_our_clients_survive_a_java_broker_and_a_java_name_server_that_are_killed(jars, tmp_path, name):
    with JavaNameServer(tmp_path / "nameserver") as name_server:
        broker = JavaBroker(tmp_path / "broker", name_server.address, properties={"flushDiskType": "SYNC_FLUSH"})
        with broker, Producer("makers", name_server.address) as producer:
            producer.send(Message(name, b"before"))
            with PushConsumer("takers", name_server.address, consume_from=ConsumeFrom.FIRST) as consumer:
                consumer.subscribe(name)
                take(consumer, [b"before"])

                name_server.kill()
                producer.send(Message(name, b"on a cached route"))
                take(consumer, [b"on a cached route"])
                name_server.start()

                broker.kill()
                with contextlib.suppress(SendFailed):
                    producer.send(Message(name, b"into the void"))
                broker.start()
                producer.send(Message(name, b"after"))
                take(consumer, [b"after"])
            broker.kill()  # a clean stop takes Java ten seconds
        name_server.kill()
