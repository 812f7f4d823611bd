"""The consumer against a real broker: orders in, invoices out."""

import json

from orbitmq import ConsumeFrom, Message
from orbitmq.blocking import Producer, PushConsumer
from orbitmq.testing.blocking_cluster import BlockingCluster

from billing.consumer import Billing  # type: ignore[import-not-found]


def order(number: int) -> Message:
    """Return the message of an order."""
    body = {"id": f"A-{number}", "quantity": number, "price": 100}
    return Message("orders", json.dumps(body).encode(), tag="new", keys=[f"A-{number}"])


def receive(name_servers: str, topic: str, count: int) -> list[bytes]:
    """Return the bodies of a topic's first messages, as soon as so many are there."""
    bodies: list[bytes] = []
    # New topics are looked for every tenth of a second, not every half minute.
    with PushConsumer("tests", name_servers, consume_from=ConsumeFrom.FIRST, poll_interval_ms=100) as consumer:
        consumer.subscribe(topic)
        while len(bodies) < count:
            batch = consumer.next_batch(timeout_ms=20_000)
            assert batch is not None, f"{len(bodies)} of {count} messages came"
            bodies += [message.body for message in batch]
            batch.commit()
    return bodies


def test_every_order_has_an_invoice(rocketmq: BlockingCluster) -> None:
    with Producer("tests", rocketmq.name_servers) as producer:
        producer.send_all(order(number) for number in range(1, 11))
    with Billing(rocketmq.name_servers):
        invoices = [json.loads(body) for body in receive(rocketmq.name_servers, "invoices", 10)]
    assert sorted(invoice["total"] for invoice in invoices) == [number * 100 for number in range(1, 11)]


def test_what_is_no_order_is_a_dead_letter_and_keeps_no_other_from_its_invoice(rocketmq: BlockingCluster) -> None:
    with Producer("tests", rocketmq.name_servers) as producer:
        producer.send(Message("orders", b"no order", tag="new"))
        producer.send(order(7))
    with Billing(rocketmq.name_servers):
        (invoice,) = receive(rocketmq.name_servers, "invoices", 1)
        assert receive(rocketmq.name_servers, "%DLQ%billing", 1) == [b"no order"]
    assert json.loads(invoice) == {"order": "A-7", "total": 700}


def test_an_order_is_billed_after_its_broker_has_restarted(rocketmq: BlockingCluster) -> None:
    with Producer("tests", rocketmq.name_servers) as producer:
        producer.send(order(1))
    with Billing(rocketmq.name_servers):
        receive(rocketmq.name_servers, "invoices", 1)
        rocketmq.restart_broker()
        with Producer("tests", rocketmq.name_servers) as producer:
            producer.send(order(2), timeout_ms=20_000)
        (invoice,) = receive(rocketmq.name_servers, "invoices", 1)
    assert json.loads(invoice)["order"] == "A-2"
