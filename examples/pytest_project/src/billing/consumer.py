"""The consumer of the group `billing`: handles orders, and announces each invoice as a message."""

import json

from orbitmq import ConsumeFrom, Message
from orbitmq.blocking import Batch, Producer, PushConsumer


def invoice_of(body: bytes) -> dict[str, object]:
    """Return the invoice of an order; ValueError when it is none. Pure: its tests need no broker."""
    order = json.loads(body)
    if not isinstance(order, dict) or not {"id", "quantity", "price"} <= order.keys():
        raise ValueError(f"no order: {body!r}")
    return {"order": order["id"], "total": order["quantity"] * order["price"]}


class Billing:
    """A member of the group `billing`, open as long as its `with` block lasts."""

    def __init__(self, name_servers: str) -> None:
        self._producer = Producer("billing", name_servers)
        self._consumer = PushConsumer("billing", name_servers, handler=self.handle, consume_from=ConsumeFrom.FIRST)
        self._consumer.subscribe("orders", tag="new")

    def __enter__(self) -> "Billing":
        self._producer.open()
        self._consumer.open()
        return self

    def __exit__(self, *_error: object) -> None:
        self._consumer.close()
        self._producer.close()

    def handle(self, batch: Batch) -> None:
        """Bill a batch; a message that is not an order is a dead letter, an invoice that cannot be sent comes again."""
        for message in batch:
            try:
                invoice = invoice_of(message.body)
            except ValueError:
                batch.reject(message)
            else:
                self._producer.send(Message("invoices", json.dumps(invoice).encode(), keys=[str(invoice["order"])]))
                batch.ack(message)
