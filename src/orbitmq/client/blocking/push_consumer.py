"""The push consumer for code without an event loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from orbitmq.client.blocking.batch import BlockingBatch
from orbitmq.client.blocking.client import BlockingClient
from orbitmq.client.blocking.handler_threads import HandlerThreads
from orbitmq.client.push_consumer import PushConsumer
from orbitmq.client.send.result import SendResult
from orbitmq.client.send.sender import SEND_TIMEOUT_MS
from orbitmq.model.message import StoredMessage
from orbitmq.model.route import MessageQueue


class BlockingPushConsumer(BlockingClient[PushConsumer]):
    """Consumes some topics as a member of a group; takes the arguments of `orbitmq.PushConsumer`.

        with PushConsumer("billing", name_servers=["127.0.0.1:9876"]) as consumer:
            consumer.subscribe("orders", tag="new")
            for batch in consumer:
                bill(batch)
                batch.commit()

    or with a handler, a plain function that is called on threads, up to `concurrency` of them at a time:

        with PushConsumer("billing", name_servers, message_handler=bill, concurrency=8) as consumer:
            consumer.subscribe("orders", tag="new")
            consumer.run()

    Args:
        group: the consumer group.
        name_servers: `["host:port", ...]` or `"host:port;host:port"`.
        handler: takes a batch; as in `orbitmq.PushConsumer`, it has done it when it returns. After `consume_timeout_ms`
            it has failed, but goes on: a thread cannot be cancelled.
        message_handler: instead, takes one StoredMessage.
        settings: all others, as `orbitmq.PushConsumer` takes them. `key` is called on the loop's thread: it does not wait.

    Raises:
        InvalidArgument: names the argument.
    """

    def __init__(
        self,
        group: str,
        name_servers: str | Iterable[str],
        *,
        handler: Callable[[BlockingBatch], object] | None = None,
        message_handler: Callable[[StoredMessage], object] | None = None,
        **settings: Any,
    ) -> None:
        batches = None if handler is None else HandlerThreads("handler", handler)
        messages = None if message_handler is None else HandlerThreads("message_handler", message_handler)
        self._threads = [threads for threads in (batches, messages) if threads is not None]
        if batches is not None:
            settings["handler"] = lambda batch: batches.call(BlockingBatch(batch, self._loop_thread))
        if messages is not None:
            settings["message_handler"] = messages.call
        super().__init__(lambda: PushConsumer(group, name_servers, **settings), f"consumer {group}")

    def close(self) -> None:
        """Let running handlers end, for 5 s at most, store the offsets, leave the group, and end the threads."""
        try:
            super().close()
        finally:
            for threads in self._threads:
                threads.close()

    def run(self) -> None:
        """Wait until the consumer is closed, or until Ctrl-C; for programs whose handler does the work.

        Raises:
            ClientError: nothing can come: the consumer is not open, or subscribes to nothing.
        """
        self._loop_thread.call(self._client.run())

    def assigned(self) -> frozenset[MessageQueue]:
        """Wait for the first assignment, and return it.

        Raises:
            ClientError: the consumer is not open, or subscribes to nothing.
        """
        return self._loop_thread.call(self._client.assigned())

    @property
    def client_id(self) -> str:
        """The id under which brokers know this consumer."""
        return self._client.client_id

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
