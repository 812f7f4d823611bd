"""Producer, PushConsumer and PullConsumer for code without an event loop: scripts and notebooks.

Each object owns a background thread with a loop, on which the asyncio class of the same name does the work. Methods
wait for their results and may be called from any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from orbitmq.client import producer, pull_consumer, push_consumer
from orbitmq.client.base import Client
from orbitmq.client.consume.batch import Batch
from orbitmq.client.consume.offsets.queue_offsets import OffsetRange
from orbitmq.client.loop_thread import BackgroundLoop
from orbitmq.client.send.result import SendResult
from orbitmq.errors import InvalidArgument
from orbitmq.model.message import Message, StoredMessage
from orbitmq.model.route import MessageQueue

C = TypeVar("C", bound=Client)


class _Face(Generic[C]):
    """A client on a background loop, as a context manager."""

    def __init__(self, make: Callable[[], C], name: str) -> None:
        self._background = BackgroundLoop(f"orbitmq {name}")
        try:
            self._client: C = self._background.apply(make)
        except BaseException:
            self._background.stop()
            raise

    def open(self) -> None:
        """Begin; `with` does it by itself."""
        self._background.call(self._client.open())

    def close(self) -> None:
        """Finish what is under way, leave, and end the background thread."""
        try:
            self._background.call(self._client.close())
        finally:
            self._background.stop()

    def use_name_servers(self, name_servers: str | Iterable[str]) -> None:
        """Ask other NameServers from now on."""
        self._background.apply(self._client.use_name_servers, name_servers)

    def __enter__(self) -> Self:
        try:
            self.open()
        except BaseException:
            self._background.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class BlockingProducer(_Face[producer.Producer]):
    """Sends messages; takes the arguments of `orbitmq.Producer`.

    with Producer("orders-service", name_servers=["127.0.0.1:9876"]) as producer:
        sent = producer.send(Message("orders", b"{...}"))
    """

    def __init__(self, group: str, name_servers: str | Iterable[str], **settings: Any) -> None:
        super().__init__(lambda: producer.Producer(group, name_servers, **settings), f"producer {group}")

    def send(
        self,
        message: Message,
        *,
        timeout_ms: int | None = None,
        queue: MessageQueue | None = None,
        key: str | None = None,
    ) -> SendResult:
        """Send one message and return where it went."""
        return self._background.call(self._client.send(message, timeout_ms=timeout_ms, queue=queue, key=key))

    def send_batch(
        self,
        messages: Sequence[Message],
        *,
        timeout_ms: int | None = None,
        queue: MessageQueue | None = None,
        key: str | None = None,
    ) -> list[SendResult]:
        """Send messages of one topic to one queue, in order."""
        return self._background.call(self._client.send_batch(messages, timeout_ms=timeout_ms, queue=queue, key=key))

    def send_oneway(self, message: Message, *, queue: MessageQueue | None = None, key: str | None = None) -> None:
        """Send one message that nobody answers."""
        self._background.call(self._client.send_oneway(message, queue=queue, key=key))

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

        async def send() -> int:
            count = 0
            for message in messages:
                await self._client.send_soon(message, key=None if key is None else key(message))
                count += 1
            await self._client.flush()
            return count

        return self._background.call(send())

    def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Return the queues that `topic` may be sent to."""
        return self._background.call(self._client.queues(topic))


class BlockingPushConsumer(_Face[push_consumer.PushConsumer]):
    """Consumes a group's share of some topics; takes the arguments of `orbitmq.PushConsumer`, but no handler.

    with PushConsumer("billing", name_servers=["127.0.0.1:9876"]) as consumer:
        consumer.subscribe("orders", tag="new")
        for batch in consumer:
            bill(batch)
            batch.commit()
    """

    def __init__(self, group: str, name_servers: str | Iterable[str], **settings: Any) -> None:
        if settings.get("handler") is not None:
            raise InvalidArgument("handler", settings["handler"], "none: iterate over the consumer")
        super().__init__(lambda: push_consumer.PushConsumer(group, name_servers, **settings), f"consumer {group}")

    def subscribe(self, topic: str, tag: str = "*") -> None:
        """Consume `topic` from now on."""
        self._background.apply(self._client.subscribe, topic, tag)

    def unsubscribe(self, topic: str) -> None:
        """Consume `topic` no more."""
        self._background.apply(self._client.unsubscribe, topic)

    @property
    def assignment(self) -> frozenset[MessageQueue]:
        """The queues that are this consumer's now."""
        return self._background.apply(lambda: self._client.assignment)

    def next_batch(self, timeout_ms: int | None = None) -> BlockingBatch | None:
        """Return the next batch, to be committed by the caller; None after `timeout_ms`, or when closed."""
        batch = self._background.call(self._client.next_batch(timeout_ms))
        return None if batch is None else BlockingBatch(batch, self._background)

    def __iter__(self) -> Iterator[BlockingBatch]:
        """Yield batches; one that is not committed when the next one is asked for comes again."""
        while True:
            batch = self.next_batch()
            if batch is None:
                return
            yield batch
            batch.leave()

    def commit_offsets(self) -> None:
        """Store the group's offsets now."""
        self._background.call(self._client.commit_offsets())


class BlockingBatch(Sequence[StoredMessage]):
    """A batch whose methods may be called from any thread; see `orbitmq.Batch`."""

    def __init__(self, batch: Batch, background: BackgroundLoop) -> None:
        self.queue = batch.queue
        self.attempt = batch.attempt
        self._batch = batch
        self._background = background

    def commit(self) -> bool:
        """All messages are done."""
        return self._background.apply(self._batch.commit)

    def retry(self) -> bool:
        """Ask for the messages once more."""
        return self._background.apply(self._batch.retry)

    def defer(self) -> None:
        """Keep the batch open past the end of the loop's body."""
        self._background.apply(self._batch.defer)

    def leave(self) -> None:
        """The loop's body has ended."""
        self._background.apply(self._batch.leave)

    def __getitem__(self, place: Any) -> Any:
        return self._batch[place]

    def __len__(self) -> int:
        return len(self._batch)

    def __iter__(self) -> Iterator[StoredMessage]:
        return iter(self._batch)

    def __repr__(self) -> str:
        return repr(self._batch)


class BlockingPullConsumer(_Face[pull_consumer.PullConsumer]):
    """Reads queues that the caller assigns; takes the arguments of `orbitmq.PullConsumer`.

    with PullConsumer("audit", name_servers=["127.0.0.1:9876"]) as consumer:
        consumer.assign(consumer.queues("orders"))
        while messages := consumer.poll():
            ...
    """

    def __init__(self, group: str, name_servers: str | Iterable[str], **settings: Any) -> None:
        super().__init__(lambda: pull_consumer.PullConsumer(group, name_servers, **settings), f"consumer {group}")

    def queues(self, topic: str) -> list[MessageQueue]:
        """Return the topic's readable queues."""
        return self._background.call(self._client.queues(topic))

    def assign(self, queues: Iterable[MessageQueue]) -> None:
        """Read these queues and no others."""
        self._background.apply(self._client.assign, list(queues))

    @property
    def assignment(self) -> frozenset[MessageQueue]:
        """The queues that are read now."""
        return self._background.apply(lambda: self._client.assignment)

    def seek(self, queue: MessageQueue, queue_offset: int) -> None:
        """Go on reading `queue` at `queue_offset`."""
        self._background.apply(self._client.seek, queue, queue_offset)

    def seek_to_begin(self, queue: MessageQueue) -> int:
        """Go on at the queue's first message; return its offset."""
        return self._background.call(self._client.seek_to_begin(queue))

    def seek_to_end(self, queue: MessageQueue) -> int:
        """Go on behind the queue's last message; return the offset of the next one."""
        return self._background.call(self._client.seek_to_end(queue))

    def seek_to_timestamp(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """Go on at the first message stored at `timestamp_ms` or later; return its offset."""
        return self._background.call(self._client.seek_to_timestamp(queue, timestamp_ms))

    def position(self, queue: MessageQueue) -> int | None:
        """Return the offset of the next message that `poll` gives of `queue`."""
        return self._background.apply(self._client.position, queue)

    def poll(
        self, timeout_ms: int = pull_consumer.POLL_TIMEOUT_MS, count_max: int = pull_consumer.POLL_COUNT_MAX
    ) -> list[StoredMessage]:
        """Return messages of the assigned queues as they come; an empty list when none came in time."""
        return self._background.call(self._client.poll(timeout_ms, count_max))

    def offsets(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, OffsetRange]:
        """Return where each queue begins and ends now."""
        return self._background.call(self._client.offsets(list(queues)))

    def committed(self, queue: MessageQueue) -> int | None:
        """Return the group's committed offset in `queue`, None when there is none."""
        return self._background.call(self._client.committed(queue))

    def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Store offsets for the group, by default those up to which `poll` gave messages."""
        self._background.call(self._client.commit(offsets))
