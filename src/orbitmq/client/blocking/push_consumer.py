"""The push consumer for code without an event loop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from orbitmq.client.blocking.batch import BlockingBatch
from orbitmq.client.blocking.client import BlockingClient
from orbitmq.client.push_consumer import PushConsumer
from orbitmq.client.send.result import SendResult
from orbitmq.client.send.sender import SEND_TIMEOUT_MS
from orbitmq.errors import InvalidArgument
from orbitmq.model.message import StoredMessage
from orbitmq.model.route import MessageQueue


class BlockingPushConsumer(BlockingClient[PushConsumer]):
    """Consumes some topics as a member of a group; takes the arguments of `orbitmq.PushConsumer`, but no handler.

    with PushConsumer("billing", name_servers=["127.0.0.1:9876"]) as consumer:
        consumer.subscribe("orders", tag="new")
        for batch in consumer:
            bill(batch)
            batch.commit()
    """

    def __init__(self, group: str, name_servers: str | Iterable[str], **settings: Any) -> None:
        for name in ("handler", "message_handler"):
            if settings.get(name) is not None:
                raise InvalidArgument(name, settings[name], "none: iterate over the consumer")
        super().__init__(lambda: PushConsumer(group, name_servers, **settings), f"consumer {group}")

    def subscribe(self, topic: str, tag: str = "*", *, sql: str | None = None) -> None:
        """Consume `topic` from now on: all of it, by tags, or by an SQL92 expression over properties."""
        self._loop_thread.apply(lambda: self._client.subscribe(topic, tag, sql=sql))

    def unsubscribe(self, topic: str) -> None:
        """Consume `topic` no more."""
        self._loop_thread.apply(self._client.unsubscribe, topic)

    @property
    def assignment(self) -> frozenset[MessageQueue]:
        """The queues that this consumer reads now."""
        return self._loop_thread.apply(lambda: self._client.assignment)

    def next_batch(self, timeout_ms: int | None = None) -> BlockingBatch | None:
        """Return the next batch, to be committed by the caller; None after `timeout_ms`, or when closed."""
        batch = self._loop_thread.call(self._client.next_batch(timeout_ms))
        return None if batch is None else BlockingBatch(batch, self._loop_thread)

    def __iter__(self) -> Iterator[BlockingBatch]:
        """Yield batches; one that is not committed when the next one is asked for comes again."""
        while True:
            batch = self.next_batch()
            if batch is None:
                return
            yield batch
            batch.leave()

    def reply(
        self,
        request: StoredMessage,
        body: bytes,
        *,
        properties: Mapping[str, str] | None = None,
        timeout_ms: int = SEND_TIMEOUT_MS,
    ) -> SendResult:
        """Reply to a request; return when the client that asked has the reply."""
        return self._loop_thread.call(self._client.reply(request, body, properties=properties, timeout_ms=timeout_ms))

    def commit_offsets(self) -> None:
        """Store the group's offsets now."""
        self._loop_thread.call(self._client.commit_offsets())
