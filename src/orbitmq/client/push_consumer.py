"""The PushConsumer: all its queues are long-polled at the same time, and its messages come as batches.

A group's consumers divide the queues among them (clustering) or get all of them each (broadcasting).

Source: Java DefaultMQPushConsumerImpl.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path

from orbitmq.client.base import Client
from orbitmq.client.consume.allocation import Strategy, allocate_average
from orbitmq.client.consume.batch import Batch, BatchIterator
from orbitmq.client.consume.handler_pools import Handler, KeyOf, MessageHandler
from orbitmq.client.consume.pull_request import PULL_COUNT_MAX
from orbitmq.client.consume.rebalancer import REBALANCE_INTERVAL_MS
from orbitmq.client.consume.redelivery import MAX_ATTEMPTS, RETRY_DELAY_MS
from orbitmq.client.consume.settings import ConsumerSettings
from orbitmq.client.consume.window import COUNT_MAX, SIZE_MAX, SPAN_MAX, WINDOWS_SIZE_MAX
from orbitmq.client.group_member import GroupMember
from orbitmq.client.routing.routes import POLL_INTERVAL_MS
from orbitmq.client.send.replies import ConsumerReplies
from orbitmq.client.send.result import SendResult
from orbitmq.client.send.sender import SEND_TIMEOUT_MS
from orbitmq.client.session.arguments import function
from orbitmq.client.session.heartbeats import HEARTBEAT_INTERVAL_MS
from orbitmq.client.session.validation import INTERVAL_MS, checked
from orbitmq.client.trace.tracer import TRACE_TOPIC
from orbitmq.errors import ClientError, RemoteRefused
from orbitmq.model.group import ConsumeFrom, MessageModel
from orbitmq.model.message import StoredMessage
from orbitmq.model.route import MessageQueue
from orbitmq.wire.signature import Credentials

BATCH_COUNT_MAX = 32
CONCURRENCY = 20
COMMIT_INTERVAL_MS = 5_000
CONSUME_TIMEOUT_MS = 15 * 60 * 1_000
STALL_CHECK_MS, STALL_MS = 1_000, 5_000
CLOSE_TIMEOUT_MS = 5_000
"""How long closing waits for running handlers."""
SILENCE_MS = 2_000
"""After so long a consumer without a handler or an iteration is a mistake."""

log = logging.getLogger(__name__)


@checked(init={"key": function}, reply={"timeout_ms": INTERVAL_MS})
class PushConsumer(Client):
    """Consumes some topics as a member of a group.

        async with PushConsumer("billing", name_servers=["127.0.0.1:9876"]) as consumer:
            consumer.subscribe("orders", tag="new")
            async for batch in consumer:     # one queue's messages, in order
                await bill(batch)
                batch.commit()               # not called: the broker delivers them again, later

    or `PushConsumer(group, name_servers, handler=bill)`, where a handler that returns has done its batch, and one that
    raises has failed on what it has not settled; or with `message_handler=`, which takes one message.

    A message that fails goes back to its broker, which delivers it again after 10 s, 30 s, 1 min ... up to 2 h, and keeps
    it with the group's dead letters after `max_attempts`; those behind it go on. With `ordered=True` it comes again in
    place, before anything else of its queue, and is a dead letter after `max_attempts`, too. The brokers' locks see to it
    that no other consumer of the group reads the queue meanwhile.

    Args:
        group: the consumer group.
        name_servers: `["host:port", ...]` or `"host:port;host:port"`.
        handler: a function, async or not, that takes a Batch; up to `concurrency` queues are handled at the same time.
        message_handler: instead, a function that takes one StoredMessage; up to `concurrency` messages are handled at
            once, those of one `key` one after the other.
        key: for `message_handler`, returns what a message is to stay in order with. When left out, that is the message's
            `sharding_key` (messages without one stay in no order), and with `ordered=True` its whole queue.
        ordered: consume each queue in order, under its broker's lock, and let what fails come again before the rest.
        max_attempts: deliveries of a message, the first one included; None for no limit. (Java's maxReconsumeTimes does
            not count the first one.)
        consume_timeout_ms: a handler that takes longer is cancelled and has failed. Without a handler, or once it has
            deferred it, a batch that is not settled by then counts as failed, but not in order.
        close_timeout_ms: running handlers have so long to end when the consumer is closed; then they are cancelled, with a
            warning, and their messages come again.
        message_model: divide the queues among the group (CLUSTERING) or read all of them (BROADCASTING).
        consume_from: where a group without an offset begins. As with Java, LAST means the beginning for a queue that
            still holds its very first message, so that nothing sent to a new topic is missed.
        consume_from_ms: for TIMESTAMP, in ms since 1970.
        batch_count_max: messages per batch.
        concurrency: batches or messages that are handled at the same time.
        pull_count_max: messages per pull.
        window_count_max: messages of one queue that may wait here before pulling pauses.
        window_size_max: bytes of one queue that may wait here before pulling pauses.
        window_span_max: for `message_handler`: offsets of one queue between the first message that is not done and the
            last one that was pulled, before pulling pauses: so many may come again after a crash.
        windows_size_max: bytes that may wait here in all queues together, each with the same share, before pulling pauses; what one
            pull of each brings may come on top.
        retry_delay_ms: before what failed comes again in place; doubles up to half a minute.
        commit_interval_ms: how often offsets are stored; closing stores them, too.
        instance: the second half of the client id. Broadcasting keeps its offsets under it, so give each
            broadcasting consumer of one machine its own.
        offset_dir: where broadcasting keeps its offsets, `~/.orbitmq/offsets` when left out.
        strategy: how a group divides the queues.
        credentials: sign every request with this access key (RocketMQ's ACL).
        tls: connect with TLS, as `orbitmq.net.security.tls.client_context` or `ssl.create_default_context` makes it.
        trace: tell every message's way to `trace_topic`, in the background (RocketMQ's message trace).
        trace_topic: where traces go.
    """

    def __init__(
        self,
        group: str,
        name_servers: str | Iterable[str],
        *,
        handler: Handler | None = None,
        message_handler: MessageHandler | None = None,
        key: KeyOf | None = None,
        ordered: bool = False,
        max_attempts: int | None = MAX_ATTEMPTS,
        consume_timeout_ms: int = CONSUME_TIMEOUT_MS,
        close_timeout_ms: int = CLOSE_TIMEOUT_MS,
        message_model: MessageModel = MessageModel.CLUSTERING,
        consume_from: ConsumeFrom = ConsumeFrom.LAST,
        consume_from_ms: int | None = None,
        batch_count_max: int = BATCH_COUNT_MAX,
        concurrency: int = CONCURRENCY,
        pull_count_max: int = PULL_COUNT_MAX,
        window_count_max: int = COUNT_MAX,
        window_size_max: int = SIZE_MAX,
        window_span_max: int = SPAN_MAX,
        windows_size_max: int = WINDOWS_SIZE_MAX,
        retry_delay_ms: int = RETRY_DELAY_MS,
        commit_interval_ms: int = COMMIT_INTERVAL_MS,
        rebalance_interval_ms: int = REBALANCE_INTERVAL_MS,
        heartbeat_interval_ms: int = HEARTBEAT_INTERVAL_MS,
        poll_interval_ms: int = POLL_INTERVAL_MS,
        instance: str | None = None,
        offset_dir: Path | str | None = None,
        strategy: Strategy = allocate_average,
        credentials: Credentials | None = None,
        tls: ssl.SSLContext | None = None,
        trace: bool = False,
        trace_topic: str = TRACE_TOPIC,
    ) -> None:
        settings = ConsumerSettings(
            group=group, name_servers=name_servers, handler=handler, message_handler=message_handler, key=key,
            ordered=ordered, max_attempts=max_attempts, consume_timeout_ms=consume_timeout_ms,
            close_timeout_ms=close_timeout_ms,
            message_model=MessageModel(message_model), consume_from=ConsumeFrom(consume_from),
            consume_from_ms=consume_from_ms, batch_count_max=batch_count_max, concurrency=concurrency,
            pull_count_max=pull_count_max, window_count_max=window_count_max, window_size_max=window_size_max,
            window_span_max=window_span_max, windows_size_max=windows_size_max,
            retry_delay_ms=retry_delay_ms, commit_interval_ms=commit_interval_ms,
            rebalance_interval_ms=rebalance_interval_ms, heartbeat_interval_ms=heartbeat_interval_ms,
            poll_interval_ms=poll_interval_ms, instance=instance, offset_dir=offset_dir, strategy=strategy,
            credentials=credentials, tls=tls, trace=trace, trace_topic=trace_topic,
        )  # fmt: skip
        self.group = group
        self._settings = settings
        self._member = GroupMember(settings, self._fail)
        super().__init__(self._member.session)
        self._replies = ConsumerReplies(self._session, group)
        self._was_subscribed = self._was_asked = False
        self._closed = asyncio.Event()
        self._failure: RemoteRefused | None = None
        self._over = asyncio.Event()
        """Set when the consumer is closed, or has failed."""
        self._closing = asyncio.Lock()
        self._loops: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """Begin to consume.

        Raises:
            NoNameServer: none of them answers.
        """
        member, session = self._member, self._session
        session.open()
        try:
            if member.local_offsets is not None:
                member.local_offsets.open(member.settings.instance or session.id)
            else:
                member.subscribe(self._settings.retry_topic)  # where Java members send what they could not do
            await member.rebalancer.find_routes()
        except BaseException:
            await session.close()
            raise
        self._loops = [
            session.tasks.spawn(member.rebalancer.run(), "rebalancer"),
            session.tasks.spawn(self._store_offsets(), "offsets"),
            session.tasks.spawn(self._warn_of_silence(), "warning"),
            session.tasks.spawn(self._warn_of_stalls(), "stalls"),
        ]
        if member.tracer is not None:
            member.tracer.open()
        if self._settings.locks_queues:
            self._loops.append(session.tasks.spawn(member.assignment.keep_locks(), "locks"))
        if member.pool is not None:
            member.pool.start()

    async def close(self) -> None:
        """Let running handlers end (for `close_timeout_ms` at most), store the offsets, leave the group and close the connections.

        A second call returns when that is done.
        """
        async with self._closing:
            if not self._session.is_open:
                return
            member = self._member
            self._closed.set()
            self._over.set()
            member.ready.close()
            for loop in self._loops:
                loop.cancel()
            await asyncio.gather(*self._loops, return_exceptions=True)
            if member.pool is not None:
                await member.pool.drain(self._settings.close_timeout_ms)
            await member.assignment.close()
            if member.tracer is not None:
                await member.tracer.close()
            await self._session.close()

    async def run(self) -> None:
        """Wait until the consumer is closed; for programs whose handler does the work.

        Raises:
            ClientError: nothing can come: the consumer is not open, or subscribes to nothing.
            RemoteRefused: a broker refuses a subscription, and no repetition can change that: it takes no expressions
                (`enablePropertyFilter`), or cannot read this one (23).
        """
        if not self._closed.is_set():
            self._check_open()
            self._check_subscribed()
        await self._over.wait()
        failure, self._failure = self._failure, None
        if failure is not None and not self._closed.is_set():
            self._over.clear()
            raise failure

    def subscribe(self, topic: str, tag: str = "*", *, sql: str | None = None) -> None:
        """Consume `topic` from now on.

        Args:
            topic: need not exist yet.
            tag: one tag, several as "A || B", or "*".
            sql: instead of tags, an SQL92 expression over the messages' properties, such as
                "price > 10 AND region IN ('eu', 'us')"; the broker filters, if its `enablePropertyFilter` is on.

        Raises:
            InvalidArgument: the topic, tag or expression is wrong; InvalidExpression says where.
            ClientError: the consumer is closed.
        """
        self._check_not_over()
        self._member.subscribe(topic, tag, sql)
        self._was_subscribed |= topic != self._settings.retry_topic

    def unsubscribe(self, topic: str) -> None:
        """Consume `topic` no more."""
        self._member.unsubscribe(topic)

    @property
    def client_id(self) -> str:
        """The id under which brokers know this consumer."""
        return self._session.id

    @property
    def assignment(self) -> frozenset[MessageQueue]:
        """The queues that this consumer reads now, the group's retry queues aside."""
        return frozenset(queue for queue in self._member.assignment.queues if queue.topic != self._settings.retry_topic)

    async def assigned(self) -> frozenset[MessageQueue]:
        """Wait for the first assignment, and return it.

        Raises:
            ClientError: the consumer is not open, or subscribes to nothing.
        """
        self._check_open()
        self._check_subscribed()
        await self._member.rebalancer.first_assignment()
        return self.assignment

    def __aiter__(self) -> AsyncIterator[Batch]:
        """Yield batches until the consumer is closed. Several tasks may iterate, each over its own batches."""
        return BatchIterator(self.next_batch)

    async def next_batch(self, timeout_ms: int | None = None) -> Batch | None:
        """Return the next batch, to be committed by the caller.

        Args:
            timeout_ms: how long to wait for it; as long as it takes when left out.

        Returns:
            The batch; None after `timeout_ms`, or when the consumer is closed.

        Raises:
            ClientError: nothing can come: the consumer is not open, subscribes to nothing, or has a handler.
            RemoteRefused: as `run`.
        """
        if not self._closed.is_set():  # closed during an iteration: the iteration ends, nothing is wrong
            self._check_open()
            self._check_subscribed()
            self._was_asked = True
            if self._settings.has_handler:
                raise ClientError("this consumer's handler gets its messages: iterate over one without a handler")
        if timeout_ms is None:
            return await self._member.ready.next_batch()
        try:
            return await asyncio.wait_for(self._member.ready.next_batch(), timeout_ms / 1000)
        except TimeoutError:
            return None

    async def reply(
        self,
        request: StoredMessage,
        body: bytes,
        *,
        properties: Mapping[str, str] | None = None,
        timeout_ms: int = SEND_TIMEOUT_MS,
    ) -> SendResult:
        """Reply to a request (see `Producer.request`); return when the client that asked has the reply.

        Args:
            request: as a batch has it; `is_request` tells which messages are.
            body: the reply's.
            properties: the reply's own name-value pairs.
            timeout_ms: for all attempts.

        Raises:
            InvalidArgument: the message is not a request.
            SendFailed: no broker could hand the reply over; the requester has mostly timed out then.
        """
        self._check_open()
        return await self._replies.send(request.reply(body, properties=properties), timeout_ms)

    async def commit_offsets(self) -> None:
        """Store the group's offsets now; errors are logged, the next round tries again."""
        await self._member.assignment.store_offsets()

    def _fail(self, refusal: RemoteRefused) -> None:
        """End the wait for messages of a subscription that is refused for good."""
        if self._settings.has_handler:
            self._failure = refusal
            self._over.set()
        else:
            self._member.ready.fail(refusal)

    def _check_subscribed(self) -> None:
        if not self._was_subscribed:
            raise ClientError("nothing to wait for: subscribe() comes first")

    async def _store_offsets(self) -> None:
        while True:
            await asyncio.sleep(self._settings.commit_interval_ms / 1000)
            await self.commit_offsets()

    async def _warn_of_stalls(self) -> None:
        """Warn when the event loop stood still: heartbeats stop then, and the group takes this consumer's queues."""
        loop, handler = asyncio.get_running_loop(), self._settings.handler or self._settings.message_handler
        while True:
            began_s = loop.time()
            await asyncio.sleep(STALL_CHECK_MS / 1000)
            stood_s = loop.time() - began_s - STALL_CHECK_MS / 1000
            if stood_s >= STALL_MS / 1000:
                log.warning(
                    "group %s: the event loop stood still for %.1f s, no heartbeat left meanwhile. Does %s block it? An async handler "
                    "awaits; one that blocks is a plain function for the consumer of orbitmq.blocking, or runs in asyncio.to_thread",
                    self.group, stood_s, "the program" if handler is None else getattr(handler, "__qualname__", repr(handler)),
                )  # fmt: skip

    async def _warn_of_silence(self) -> None:
        """Tell of a consumer that gets nothing because of how it is used."""
        await asyncio.sleep(SILENCE_MS / 1000)
        if not self._was_subscribed:
            log.warning(
                "group %s: nothing comes: this consumer subscribes to nothing, subscribe() is missing", self.group
            )
        elif not self._settings.has_handler and not self._was_asked:
            log.warning(
                "group %s: the messages are not taken: give a handler, or iterate over the consumer", self.group
            )
