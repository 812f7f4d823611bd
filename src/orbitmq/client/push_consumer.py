"""The PushConsumer: all its queues are long-polled at the same time, and its messages come as batches.

A group's consumers divide the queues among them (clustering) or get all of them each (broadcasting).

Source: Java DefaultMQPushConsumerImpl.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from operator import attrgetter
from pathlib import Path

from orbitmq.client.base import Client
from orbitmq.client.consume import inspection
from orbitmq.client.consume.allocation import Strategy, allocate_average
from orbitmq.client.consume.assigned_queue import Consumption
from orbitmq.client.consume.assignment import Assignment
from orbitmq.client.consume.batch import Batch, BatchIterator, Settler
from orbitmq.client.consume.handler_pools import Handler, HandlerPool, KeyOf, MessageHandler, MessagePool, ReadyQueues
from orbitmq.client.consume.inspection import DirectConsumption, Inspection
from orbitmq.client.consume.offset_stores import BrokerOffsets, LocalOffsets
from orbitmq.client.consume.pull_request import PULL_COUNT_MAX, PullSettings
from orbitmq.client.consume.queue_allocator import QueueAllocator
from orbitmq.client.consume.queue_locks import HeldQueueLocks
from orbitmq.client.consume.rebalancer import REBALANCE_INTERVAL_MS, Rebalancer, RebalanceRequests
from orbitmq.client.consume.redelivery import MAX_ATTEMPTS, RETRY_DELAY_MS, RedeliveryPolicy
from orbitmq.client.consume.send_backs import Drops, SendBacks
from orbitmq.client.consume.start_offsets import QueueOffsets, StartOffsets, check_start
from orbitmq.client.consume.statistics import ConsumeStatistics
from orbitmq.client.consume.subscriptions import subscribe
from orbitmq.client.consume.window import COUNT_MAX, SIZE_MAX, SPAN_MAX
from orbitmq.client.routing.routes import POLL_INTERVAL_MS
from orbitmq.client.send.replies import ConsumerReplies
from orbitmq.client.send.result import SendResult
from orbitmq.client.send.sender import SEND_TIMEOUT_MS
from orbitmq.client.session.arguments import function
from orbitmq.client.session.client_id import DEFAULT_INSTANCE
from orbitmq.client.session.heartbeats import HEARTBEAT_INTERVAL_MS
from orbitmq.client.session.session import ClientSession
from orbitmq.client.session.validation import INTERVAL_MS, checked
from orbitmq.client.trace.settlers import TracedSettler
from orbitmq.client.trace.tracer import TRACE_TOPIC, Tracer
from orbitmq.clock import now_ms
from orbitmq.errors import ClientError, InvalidArgument
from orbitmq.model.group import ConsumeFrom, ConsumerInfo, Heartbeat, MessageModel, Subscription
from orbitmq.model.message import StoredMessage
from orbitmq.model.route import MessageQueue
from orbitmq.model.topic import RETRY_PREFIX
from orbitmq.net.dispatch.handlers import Call, Handlers, Reply
from orbitmq.wire.headers import NotifyConsumerIdsChanged
from orbitmq.wire.signature import Credentials

BATCH_COUNT_MAX = 32
CONCURRENCY = 20
COMMIT_INTERVAL_MS = 5_000
CONSUME_TIMEOUT_MS = 15 * 60 * 1_000
DRAIN_MS = 5_000
"""How long closing waits for running handlers."""
SILENCE_MS = 2_000
"""After so long a consumer without a handler or an iteration is a mistake."""

log = logging.getLogger(__name__)

handlers: Handlers[PushConsumer] = Handlers()


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
        message_model: MessageModel = MessageModel.CLUSTERING,
        consume_from: ConsumeFrom = ConsumeFrom.LAST,
        consume_from_ms: int | None = None,
        batch_count_max: int = BATCH_COUNT_MAX,
        concurrency: int = CONCURRENCY,
        pull_count_max: int = PULL_COUNT_MAX,
        window_count_max: int = COUNT_MAX,
        window_size_max: int = SIZE_MAX,
        window_span_max: int = SPAN_MAX,
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
        if handler is not None and message_handler is not None:
            raise InvalidArgument("message_handler", message_handler, "none next to handler")
        if key is not None and message_handler is None:
            raise InvalidArgument("key", key, "none without message_handler: batches keep their queue's order")
        self.group = group
        self._retry_topic = RETRY_PREFIX + self.group
        self._message_model = MessageModel(message_model)
        self._consume_from = check_start(consume_from, consume_from_ms)
        self._commit_interval_ms = commit_interval_ms
        self._subscriptions: dict[str, Subscription] = {}
        self._was_subscribed = self._was_asked = False
        self._closed = asyncio.Event()
        self._closing = asyncio.Lock()
        self._loops: list[asyncio.Task[None]] = []
        is_broadcasting = self._message_model is MessageModel.BROADCASTING
        self._locks_queues = ordered and not is_broadcasting
        session = ClientSession(
            name_servers,
            instance=instance or (DEFAULT_INSTANCE if is_broadcasting else None),
            describe=self._describe,
            handlers=handlers,
            service=self,
            heartbeat_interval_ms=heartbeat_interval_ms,
            poll_interval_ms=poll_interval_ms,
            credentials=credentials,
            tls=tls,
        )
        super().__init__(session)
        self._tracer = Tracer(session, group=self.group, kind="CONSUME", topic=trace_topic) if trace else None
        self._ready = ReadyQueues(batch_count_max if message_handler is None else 1)
        policy = RedeliveryPolicy(
            is_in_place=ordered or is_broadcasting, max_attempts=max_attempts, retry_delay_ms=retry_delay_ms
        )
        self._rebalance_requests = RebalanceRequests(self._retry_topic)
        send_backs = (
            Drops(self.group)
            if is_broadcasting
            else SendBacks(session, self.group, policy, on_retry=self._rebalance_requests.require_all)
        )
        self._handlers: HandlerPool | MessagePool | None = None
        if handler is not None:
            self._handlers = HandlerPool(
                self.group,
                self._ready,
                handler,
                concurrency=concurrency,
                timeout_ms=consume_timeout_ms,
                tasks=session.tasks,
            )
        elif message_handler is not None:
            self._handlers = MessagePool(
                self.group,
                self._ready,
                message_handler,
                key=key if key is not None or ordered else attrgetter("sharding_key"),
                policy=policy,
                send_backs=send_backs,
                concurrency=concurrency,
                timeout_ms=consume_timeout_ms,
                tasks=session.tasks,
            )
        statistics = ConsumeStatistics(time.monotonic())
        self._replies = ConsumerReplies(session, self.group)
        directory = Path(offset_dir) if offset_dir is not None else Path.home() / ".orbitmq" / "offsets"
        self._local_offsets = LocalOffsets(directory, self.group) if is_broadcasting else None
        store = self._local_offsets or BrokerOffsets(
            session, self.group, in_memory_queue_at_zero=self._consume_from is ConsumeFrom.LAST
        )
        self._assignment = Assignment(
            session,
            self.group,
            store,
            StartOffsets(store, QueueOffsets(session), self._consume_from, consume_from_ms, stores=True),
            Consumption(
                policy=policy,
                send_backs=send_backs,
                tasks=session.tasks,
                on_ready=self._ready.put,
                statistics=statistics.topics,
                is_shared=message_handler is not None,
                settler_of=self._settler_of,
                expires_ms=None if policy.is_in_place or self._handlers is not None else consume_timeout_ms,
                deferred_ms=None if policy.is_in_place else consume_timeout_ms,
                check_loop=session.owning_loop.check,
            ),
            settings=PullSettings(
                pull_count_max=pull_count_max,
                window_count_max=window_count_max,
                window_size_max=window_size_max,
                window_span_max=None if message_handler is None else window_span_max,
            ),
            commits_with_pulls=not is_broadcasting,
            locks=HeldQueueLocks(session, self.group) if self._locks_queues else None,
            on_lost=self._rebalance_requests.add,
        )
        self._rebalancer = Rebalancer(
            session,
            QueueAllocator(session, self.group, self._message_model, strategy),
            self._assignment,
            self._subscriptions,
            self._rebalance_requests,
            interval_ms=rebalance_interval_ms,
        )

        self._inspection = Inspection(
            session,
            self.group,
            self._assignment,
            self._subscriptions,
            direct=DirectConsumption(handler, message_handler, timeout_ms=consume_timeout_ms, is_ordered=ordered),
            statistics=statistics,
            properties={
                "PROP_CLIENT_VERSION": "V5_3_3",
                "PROP_CONSUMEORDERLY": str(ordered).lower(),
                "PROP_CONSUMER_START_TIMESTAMP": str(now_ms()),
                "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY",
                "PROP_THREADPOOL_CORE_SIZE": str(concurrency),
                "consumeConcurrentlyMaxSpan": str(window_span_max),
                "consumeFromWhere": self._consume_from.value,
                "consumeMessageBatchMaxSize": str(batch_count_max),
                "consumeThreadMax": str(concurrency),
                "consumeTimeout": str(consume_timeout_ms // 60_000),
                "consumerGroup": self.group,
                "heartbeatBrokerInterval": str(heartbeat_interval_ms),
                "language": "PYTHON",
                "maxReconsumeTimes": str(-1 if max_attempts is None else max_attempts - 1),
                "messageModel": self._message_model.value,
                "persistConsumerOffsetInterval": str(commit_interval_ms),
                "pollNameServerInterval": str(poll_interval_ms),
                "pullBatchSize": str(pull_count_max),
                "pullThresholdForQueue": str(window_count_max),
                "pullThresholdSizeForQueue": str(window_size_max >> 20),
                "suspendCurrentQueueTimeMillis": str(retry_delay_ms),
            },
        )

    async def open(self) -> None:
        """Begin to consume.

        Raises:
            NoNameServer: none of them answers.
        """
        self._session.open()
        try:
            if self._local_offsets is not None:
                self._local_offsets.open(self._session.id)
            else:
                self.subscribe(self._retry_topic)  # where Java members of the group send what they could not do
            await self._rebalancer.find_routes()
        except BaseException:
            await self._session.close()
            raise
        self._loops = [
            self._session.tasks.spawn(self._rebalancer.run(), "rebalancer"),
            self._session.tasks.spawn(self._store_offsets(), "offsets"),
            self._session.tasks.spawn(self._warn_of_silence(), "warning"),
        ]
        if self._tracer is not None:
            self._tracer.open()
        if self._locks_queues:
            self._loops.append(self._session.tasks.spawn(self._assignment.keep_locks(), "locks"))
        if self._handlers is not None:
            self._handlers.start()

    async def close(self) -> None:
        """Let running handlers end (for 5 s at most), store the offsets, leave the group and close the connections.

        A second call returns when that is done.
        """
        async with self._closing:
            if not self._session.is_open:
                return
            self._closed.set()
            self._ready.close()
            for loop in self._loops:
                loop.cancel()
            await asyncio.gather(*self._loops, return_exceptions=True)
            if self._handlers is not None:
                await self._handlers.drain(DRAIN_MS)
            await self._assignment.close()
            if self._tracer is not None:
                await self._tracer.close()
            await self._session.close()

    def _settler_of(self, queue: Settler) -> Settler:
        return queue if self._tracer is None else TracedSettler(queue, self._tracer)

    async def run(self) -> None:
        """Wait until the consumer is closed; for programs whose handler does the work.

        Raises:
            ClientError: nothing can come: the consumer is not open, or subscribes to nothing.
        """
        if not self._closed.is_set():
            self._check_open()
            self._check_subscribed()
        await self._closed.wait()

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
        subscription = subscribe(topic, tag, sql, now_ms())
        self._subscriptions[topic] = subscription
        self._was_subscribed |= topic != self._retry_topic
        self._assignment.subscribe(subscription)
        self._session.routes.watch(topic)
        self._rebalance_requests.note_subscriptions()

    def unsubscribe(self, topic: str) -> None:
        """Consume `topic` no more."""
        self._subscriptions.pop(topic, None)
        self._session.routes.unwatch(topic)
        self._rebalance_requests.note_subscriptions()

    @property
    def client_id(self) -> str:
        """The id under which brokers know this consumer."""
        return self._session.id

    @property
    def assignment(self) -> frozenset[MessageQueue]:
        """The queues that this consumer reads now, the group's retry queues aside."""
        return frozenset(queue for queue in self._assignment.queues if queue.topic != self._retry_topic)

    async def assigned(self) -> frozenset[MessageQueue]:
        """Wait for the first assignment, and return it.

        Raises:
            ClientError: the consumer is not open, or subscribes to nothing.
        """
        self._check_open()
        self._check_subscribed()
        await self._rebalancer.first_assignment()
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
        """
        if not self._closed.is_set():  # closed during an iteration: the iteration ends, nothing is wrong
            self._check_open()
            self._check_subscribed()
            self._was_asked = True
            if self._handlers is not None:
                raise ClientError("this consumer's handler gets its messages: iterate over one without a handler")
        if timeout_ms is None:
            return await self._ready.next_batch()
        try:
            return await asyncio.wait_for(self._ready.next_batch(), timeout_ms / 1000)
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
            InvalidArgument: the message is no request.
            SendFailed: no broker could hand the reply over; the requester has mostly timed out then.
        """
        self._check_open()
        return await self._replies.send(request.reply(body, properties=properties), timeout_ms)

    async def commit_offsets(self) -> None:
        """Store the group's offsets now; errors are logged, the next round tries again."""
        await self._assignment.store_offsets()

    def _check_subscribed(self) -> None:
        if not self._was_subscribed:
            raise ClientError("nothing to wait for: subscribe() comes first")

    async def _store_offsets(self) -> None:
        while True:
            await asyncio.sleep(self._commit_interval_ms / 1000)
            await self.commit_offsets()

    async def _warn_of_silence(self) -> None:
        """Tell of a consumer that gets nothing because of how it is used."""
        await asyncio.sleep(SILENCE_MS / 1000)
        if not self._was_subscribed:
            log.warning(
                "group %s: nothing comes: this consumer subscribes to nothing, subscribe() is missing", self.group
            )
        elif self._handlers is None and not self._was_asked:
            log.warning(
                "group %s: the messages are not taken: give a handler, or iterate over the consumer", self.group
            )

    def _describe(self, client_id: str) -> Heartbeat:
        consumer = ConsumerInfo(
            group=self.group,
            message_model=self._message_model,
            consume_from=self._consume_from,
            subscriptions=tuple(self._subscriptions.values()),
        )
        return Heartbeat(client_id=client_id, consumers=(consumer,))


@handlers.on(NotifyConsumerIdsChanged)
def _group_changed(consumer: PushConsumer, call: Call[NotifyConsumerIdsChanged]) -> Reply:
    if call.header.consumer_group == consumer.group:
        consumer._rebalance_requests.add()
    return Reply()


handlers.include(inspection.handlers)
