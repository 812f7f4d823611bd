"""The consumers for code without an event loop, and the batches that they hand out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, overload

from orbitmq.client.blocking.client import BlockingClient
from orbitmq.client.blocking.handler_threads import HandlerThreads
from orbitmq.client.consume.batch import Batch
from orbitmq.client.consume.start_offsets import OffsetRange
from orbitmq.client.loop_thread import LoopThread
from orbitmq.client.pull_consumer import POLL_COUNT_MAX, POLL_TIMEOUT_MS, PullConsumer
from orbitmq.client.push_consumer import PushConsumer
from orbitmq.client.send.result import SendResult
from orbitmq.client.send.sender import SEND_TIMEOUT_MS
from orbitmq.client.session.validation import RULES
from orbitmq.client.simple_consumer import RECEIVE_TIMEOUT_MS, SimpleConsumer
from orbitmq.model.message import StoredMessage
from orbitmq.model.route import MessageQueue
from orbitmq.wire.pop.revive_log import COUNT_MAX


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


class BlockingPullConsumer(BlockingClient[PullConsumer]):
    """Reads queues that the caller assigns; takes the arguments of `orbitmq.PullConsumer`.

    with PullConsumer("audit", name_servers=["127.0.0.1:9876"]) as consumer:
        consumer.assign(consumer.queues("orders"))
        while messages := consumer.poll():
            ...
    """

    def __init__(self, group: str, name_servers: str | Iterable[str], **settings: Any) -> None:
        super().__init__(lambda: PullConsumer(group, name_servers, **settings), f"consumer {group}")

    def queues(self, topic: str) -> list[MessageQueue]:
        """Return the topic's readable queues."""
        return self._loop_thread.call(self._client.queues(topic))

    def assign(self, queues: Iterable[MessageQueue]) -> None:
        """Read these queues and no others."""
        self._loop_thread.apply(self._client.assign, list(RULES["queues"]("queues", queues)))

    @property
    def assignment(self) -> frozenset[MessageQueue]:
        """The queues that are read now."""
        return self._loop_thread.apply(lambda: self._client.assignment)

    def seek(self, queue: MessageQueue, queue_offset: int) -> None:
        """Go on reading `queue` at `queue_offset`."""
        self._loop_thread.apply(self._client.seek, queue, queue_offset)

    def seek_to_begin(self, queue: MessageQueue) -> int:
        """Go on at the queue's first message; return its offset."""
        return self._loop_thread.call(self._client.seek_to_begin(queue))

    def seek_to_end(self, queue: MessageQueue) -> int:
        """Go on behind the queue's last message; return the offset of the next one."""
        return self._loop_thread.call(self._client.seek_to_end(queue))

    def seek_to_timestamp(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """Go on at the first message stored at `timestamp_ms` or later; return its offset."""
        return self._loop_thread.call(self._client.seek_to_timestamp(queue, timestamp_ms))

    def position(self, queue: MessageQueue) -> int | None:
        """Return the offset of the next message that `poll` gives of `queue`."""
        return self._loop_thread.apply(self._client.position, queue)

    def poll(self, timeout_ms: int = POLL_TIMEOUT_MS, count_max: int = POLL_COUNT_MAX) -> list[StoredMessage]:
        """Return messages of the assigned queues as they come; an empty list when none came in time."""
        return self._loop_thread.call(self._client.poll(timeout_ms, count_max))

    def offsets(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, OffsetRange]:
        """Return where each queue begins and ends now."""
        return self._loop_thread.call(self._client.offsets(list(RULES["queues"]("queues", queues))))

    def committed(self, queue: MessageQueue) -> int | None:
        """Return the group's committed offset in `queue`, None when there is none."""
        return self._loop_thread.call(self._client.committed(queue))

    def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Store offsets for the group, by default those up to which `poll` gave messages."""
        self._loop_thread.call(self._client.commit(offsets))


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
        """Give a message up: it goes to the group's dead letters immediately."""
        self._loop_thread.call(self._client.reject(message))


class BlockingBatch(Sequence[StoredMessage]):
    """A batch whose methods may be called from any thread; see `orbitmq.Batch`."""

    def __init__(self, batch: Batch, loop_thread: LoopThread) -> None:
        self.queue = batch.queue
        self.attempt = batch.attempt
        self._batch = batch
        self._loop_thread = loop_thread

    @property
    def is_settled(self) -> bool:
        """True when every message is settled."""
        return self._batch.is_settled

    @property
    def unsettled(self) -> tuple[StoredMessage, ...]:
        """The messages that are not settled yet, in order."""
        return self._loop_thread.apply(lambda: self._batch.unsettled)

    def commit(self, upto: StoredMessage | None = None) -> bool:
        """Mark all messages as done, or those up to one of them."""
        return self._loop_thread.apply(self._batch.commit, upto)

    def ack(self, message: StoredMessage) -> bool:
        """Mark one message as done."""
        return self._loop_thread.apply(self._batch.ack, message)

    def retry(self, message: StoredMessage | None = None, *, delay_level: int = 0) -> bool:
        """Ask for one message, or for all that are not settled, once more."""
        return self._loop_thread.apply(lambda: self._batch.retry(message, delay_level=delay_level))

    def suspend(self, delay_ms: int | None = None) -> bool:
        """Ask for all messages that are not settled once more, in place."""
        return self._loop_thread.apply(self._batch.suspend, delay_ms)

    def reject(self, message: StoredMessage | None = None) -> bool:
        """Give up one message, or all that are not settled: they become dead letters."""
        return self._loop_thread.apply(self._batch.reject, message)

    def defer(self) -> None:
        """Keep the batch open past the end of the loop's body."""
        self._loop_thread.apply(self._batch.defer)

    def leave(self) -> None:
        """End the loop's body."""
        self._loop_thread.apply(self._batch.leave)

    @overload
    def __getitem__(self, index: int) -> StoredMessage: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[StoredMessage]: ...
    def __getitem__(self, index: int | slice) -> StoredMessage | Sequence[StoredMessage]:
        return self._batch[index]

    def __len__(self) -> int:
        return len(self._batch)

    def __iter__(self) -> Iterator[StoredMessage]:
        return iter(self._batch)

    def __repr__(self) -> str:
        return repr(self._batch)
