"""The producer for code without an event loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from orbitmq.client.blocking.client import BlockingClient
from orbitmq.client.producer import REQUEST_TIMEOUT_MS, Producer
from orbitmq.client.send.result import SendResult
from orbitmq.client.session.arguments import function
from orbitmq.client.session.door import RULES
from orbitmq.model.message import Message, StoredMessage
from orbitmq.model.route import MessageQueue


class BlockingProducer(BlockingClient[Producer]):
    """Sends messages; takes the arguments of `orbitmq.Producer`.

    with Producer("orders-service", name_servers=["127.0.0.1:9876"]) as producer:
        sent = producer.send(Message("orders", b"{...}"))
    """

    _kind: type[Producer] = Producer

    def __init__(self, group: str, name_servers: str | Iterable[str], **settings: Any) -> None:
        super().__init__(lambda: self._kind(group, name_servers, **settings), f"producer {group}")

    def send(
        self,
        message: Message,
        *,
        timeout_ms: int | None = None,
        queue: MessageQueue | None = None,
        key: str | None = None,
    ) -> SendResult:
        """Send one message and return where it went."""
        return self._loop_thread.call(self._client.send(message, timeout_ms=timeout_ms, queue=queue, key=key))

    def request(
        self,
        message: Message,
        *,
        timeout_ms: int = REQUEST_TIMEOUT_MS,
        queue: MessageQueue | None = None,
        key: str | None = None,
    ) -> StoredMessage:
        """Send a message and return the reply that a consumer of its topic gives."""
        return self._loop_thread.call(self._client.request(message, timeout_ms=timeout_ms, queue=queue, key=key))

    def recall(self, handle: str, *, timeout_ms: int | None = None) -> str:
        """Take a delayed message back before its time."""
        return self._loop_thread.call(self._client.recall(handle, timeout_ms=timeout_ms))

    def send_batch(
        self,
        messages: Sequence[Message],
        *,
        timeout_ms: int | None = None,
        queue: MessageQueue | None = None,
        key: str | None = None,
    ) -> list[SendResult]:
        """Send messages of one topic to one queue, in order."""
        return self._loop_thread.call(self._client.send_batch(messages, timeout_ms=timeout_ms, queue=queue, key=key))

    def send_oneway(self, message: Message, *, queue: MessageQueue | None = None, key: str | None = None) -> None:
        """Send one message that nobody answers."""
        self._loop_thread.call(self._client.send_oneway(message, queue=queue, key=key))

    def send_all(self, messages: Iterable[Message], *, key: Callable[[Message], str | None] | None = None) -> int:
        """Send many messages, batched and pipelined over all queues, and wait until all are answered.

        Args:
            messages: of any topics; an iterator is consumed as fast as the brokers take the messages.
            key: returns the key whose queue a message goes to; without it any queue will do.

        Returns:
            How many were sent.

        Raises:
            SendFailed: some were not.
        """
        RULES["messages"]("messages", messages)
        if key is not None:
            function("key", key)

        async def send() -> int:
            count = 0
            for message in messages:
                await self._client.send_soon(message, key=None if key is None else key(message))
                count += 1
            await self._client.flush()
            return count

        return self._loop_thread.call(send())

    def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Return the queues that `topic` may be sent to."""
        return self._loop_thread.call(self._client.queues(topic))
