"""The simple consumer for code without an event loop."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from orbitmq.client.blocking.client import BlockingClient
from orbitmq.client.simple_consumer import RECEIVE_TIMEOUT_MS, SimpleConsumer
from orbitmq.model.message import StoredMessage
from orbitmq.wire.pop.revive_log import COUNT_MAX


class BlockingSimpleConsumer(BlockingClient[SimpleConsumer]):
    """Receives messages for a time and acknowledges them one by one; takes the arguments of `orbitmq.SimpleConsumer`.

    with SimpleConsumer("billing", name_servers=["127.0.0.1:9876"]) as consumer:
        consumer.subscribe("orders")
        for message in consumer.receive():
            bill(message)
            consumer.ack(message)
    """

    def __init__(self, group: str, name_servers: str | Iterable[str], **settings: Any) -> None:
        super().__init__(lambda: SimpleConsumer(group, name_servers, **settings), f"consumer {group}")

    def subscribe(self, topic: str, tag: str = "*", *, sql: str | None = None) -> None:
        """Receive messages of a topic from now on."""
        self._loop_thread.apply(lambda: self._client.subscribe(topic, tag, sql=sql))

    def unsubscribe(self, topic: str) -> None:
        """Receive no more messages of a topic."""
        self._loop_thread.apply(self._client.unsubscribe, topic)

    def receive(
        self, count_max: int = COUNT_MAX, *, timeout_ms: int = RECEIVE_TIMEOUT_MS, invisible_ms: int | None = None
    ) -> list[StoredMessage]:
        """Return messages as soon as there are any; an empty list when none came in time."""
        return self._loop_thread.call(self._client.receive(count_max, timeout_ms=timeout_ms, invisible_ms=invisible_ms))

    def ack(self, messages: StoredMessage | Iterable[StoredMessage]) -> None:
        """Acknowledge a message, or several."""
        self._loop_thread.call(self._client.ack(messages))

    def change_invisible_time(self, message: StoredMessage, invisible_ms: int) -> StoredMessage:
        """Keep a message for another `invisible_ms`; return it with its new handle."""
        return self._loop_thread.call(self._client.change_invisible_time(message, invisible_ms))

    def reject(self, message: StoredMessage) -> None:
        """Give a message up: it goes to the group's dead letters at once."""
        self._loop_thread.call(self._client.reject(message))
