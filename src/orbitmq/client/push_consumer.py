"""The PushConsumer: all its queues are long-polled at once, and its messages come as batches.

A group's consumers share the queues (clustering) or get all of them each (broadcasting). Each one computes its share
from the same two sorted lists: at the start, every 20 s, when a broker says that the group has changed, and when a
route changes.

Source: Java DefaultMQPushConsumerImpl, RebalanceImpl.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from inspect import isawaitable
from pathlib import Path

from orbitmq.client.base import Client
from orbitmq.client.client_id import DEFAULT_INSTANCE, unique_instance
from orbitmq.client.consume.allocation import Strategy, allocate_average
from orbitmq.client.consume.assigned_queue import Share
from orbitmq.client.consume.assignment import Shares
from orbitmq.client.consume.batch import Batch
from orbitmq.client.consume.local_offsets import LocalOffsets
from orbitmq.client.consume.offsets import BrokerOffsets
from orbitmq.client.consume.puller import PULL_COUNT_MAX, PullSettings
from orbitmq.client.consume.rebalancer import Assignments
from orbitmq.client.consume.subscriptions import parse_subscription
from orbitmq.client.consume.window import COUNT_MAX, SIZE_MAX
from orbitmq.client.session import HEARTBEAT_INTERVAL_MS, ClientSession
from orbitmq.clock import now_ms
from orbitmq.errors import InvalidArgument, OrbitError, RouteNotFound
from orbitmq.model.group import ConsumeFrom, ConsumerInfo, Heartbeat, MessageModel, Subscription
from orbitmq.model.route import MessageQueue, TopicRoute
from orbitmq.model.topic import GROUP_LENGTH_MAX, RETRY_PREFIX, check_name
from orbitmq.net.dispatch.handlers import Call, Handlers, Reply
from orbitmq.wire.headers import NotifyConsumerIdsChanged, UnregisterClient
from orbitmq.wire.signature import Credentials

log = logging.getLogger(__name__)

BATCH_COUNT_MAX = 32
CONCURRENCY = 20
COMMIT_INTERVAL_MS = 5_000
REBALANCE_INTERVAL_MS = 20_000
UNBALANCED_INTERVAL_MS = 1_000
RETRY_DELAY_MS = 1_000
DRAIN_MS = 5_000

Handler = Callable[[Batch], Awaitable[object] | object]

handlers: Handlers[PushConsumer] = Handlers()


class PushConsumer(Client):
    """Consumes a group's share of some topics.

        async with PushConsumer("billing", name_servers=["127.0.0.1:9876"]) as consumer:
            consumer.subscribe("orders", tag="new")
            async for batch in consumer:     # one queue's messages, in order
                await bill(batch)
                batch.commit()               # not called: redelivered after `retry_delay_ms`

    or `PushConsumer(group, name_servers, handler=bill)`, where a handler that returns has done its batch, and one that
    raises gets it again; up to `concurrency` queues are handled at once.

    Args:
        group: the consumer group.
        name_servers: `["host:port", ...]` or `"host:port;host:port"`.
        handler: an async function that takes a Batch; without one, iterate.
        message_model: share the queues with the group (CLUSTERING) or get all of them (BROADCASTING).
        consume_from: where a group without an offset begins. As with Java, LAST means the beginning for a queue that
            still holds its very first message, so that nothing sent to a new topic is missed.
        consume_from_ms: for TIMESTAMP, in ms since 1970; half an hour ago when left out.
        batch_count_max: messages per batch.
        concurrency: batches that `handler` works on at the same time, each from another queue.
        pull_count_max: messages per pull.
        window_count_max: messages of one queue that may wait here before pulling pauses.
        window_size_max: bytes of one queue that may wait here before pulling pauses.
        retry_delay_ms: before a batch that was not committed comes again; doubles up to half a minute.
        commit_interval_ms: how often offsets are stored; closing stores them, too.
        instance: the second half of the client id. Broadcasting keeps its offsets under it, so give each
            broadcasting consumer of one machine its own.
        offset_dir: where broadcasting keeps its offsets, `~/.orbitmq/offsets` when left out.
        strategy: how a group shares queues.
        credentials: sign every request with this access key (RocketMQ's ACL).
        tls: connect with TLS, as `orbitmq.net.security.tls.client_context` or `ssl.create_default_context` makes it.
    """

    def __init__(
        self,
        group: str,
        name_servers: str | Iterable[str],
        *,
        handler: Handler | None = None,
        message_model: MessageModel = MessageModel.CLUSTERING,
        consume_from: ConsumeFrom = ConsumeFrom.LAST,
        consume_from_ms: int | None = None,
        batch_count_max: int = BATCH_COUNT_MAX,
        concurrency: int = CONCURRENCY,
        pull_count_max: int = PULL_COUNT_MAX,
        window_count_max: int = COUNT_MAX,
        window_size_max: int = SIZE_MAX,
        retry_delay_ms: int = RETRY_DELAY_MS,
        commit_interval_ms: int = COMMIT_INTERVAL_MS,
        rebalance_interval_ms: int = REBALANCE_INTERVAL_MS,
        heartbeat_interval_ms: int = HEARTBEAT_INTERVAL_MS,
        poll_interval_ms: int = 30_000,
        instance: str | None = None,
        offset_dir: Path | str | None = None,
        strategy: Strategy = allocate_average,
        credentials: Credentials | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        for name, value in (("batch_count_max", batch_count_max), ("concurrency", concurrency)):
            if value < 1:
                raise InvalidArgument(name, value, "1 or more")
        self.group = check_name("group", group, GROUP_LENGTH_MAX)
        self._retry_topic = RETRY_PREFIX + self.group
        self._message_model = MessageModel(message_model)
        self._is_broadcasting = self._message_model is MessageModel.BROADCASTING
        self._consume_from = ConsumeFrom(consume_from)
        self._handler = handler
        self._batch_count_max = batch_count_max
        self._concurrency = concurrency
        self._commit_interval_ms = commit_interval_ms
        self._rebalance_interval_ms = rebalance_interval_ms
        self._offset_dir = Path(offset_dir) if offset_dir is not None else Path.home() / ".orbitmq" / "offsets"
        self._subscriptions: dict[str, Subscription] = {}
        self._ready: asyncio.Queue[Share | None] = asyncio.Queue()
        self._changed = asyncio.Event()
        self._assigned = asyncio.Event()
        self._closed = asyncio.Event()
        self._workers: list[asyncio.Task[None]] = []
        self._timers: list[asyncio.Task[None]] = []
        self._is_heartbeat_due = True
        self._session = ClientSession(
            name_servers,
            instance=instance or (DEFAULT_INSTANCE if self._is_broadcasting else unique_instance()),
            describe=self._describe,
            handlers=handlers,
            service=self,
            heartbeat_interval_ms=heartbeat_interval_ms,
            poll_interval_ms=poll_interval_ms,
            credentials=credentials,
            tls=tls,
        )
        self._session.routes.on_change.append(self._route_changed)
        self._shares = Shares(
            self._session,
            self.group,
            BrokerOffsets(self._session, self.group, young_queue_at_zero=self._consume_from is ConsumeFrom.LAST),
            consume_from=self._consume_from,
            consume_from_ms=consume_from_ms,
            settings=PullSettings(
                pull_count_max=pull_count_max, window_count_max=window_count_max, window_size_max=window_size_max
            ),
            retry_delay_ms=retry_delay_ms,
            on_ready=self._ready.put_nowait,
        )
        self._assignments = Assignments(self._session, self.group, self._message_model, strategy)

    # Life.

    async def open(self) -> None:
        """Begin to consume.

        Raises:
            NoNameServer: none of them answers.
        """
        self._session.open()
        try:
            if self._is_broadcasting:
                self._shares.commits = False
                self._shares.store = LocalOffsets(self._offset_dir / self._session.id / f"{self.group}.json")
            else:
                self.subscribe(self._retry_topic)  # where Java members of the group send what they could not do
            await self._find_routes()
        except BaseException:
            await self._session.close()
            raise
        self._timers = [
            self._session.spawn(self._keep_balanced(), "rebalance"),
            self._session.spawn(self._keep_offsets(), "offsets"),
        ]
        if self._handler is not None:
            self._workers = [
                self._session.spawn(self._work(self._handler), "handler") for _ in range(self._concurrency)
            ]

    async def close(self) -> None:
        """Let running handlers end, store the offsets, leave the group and close the connections."""
        if self._closed.is_set() or not self._session.is_open:
            return
        self._closed.set()
        for timer in self._timers:
            timer.cancel()
        await asyncio.gather(*self._timers, return_exceptions=True)
        self._ready.put_nowait(None)
        if self._workers:
            await asyncio.wait(self._workers, timeout=DRAIN_MS / 1000)
        await self._shares.close()
        await self._session.close([UnregisterClient(client_id=self._session.id, consumer_group=self.group)])

    async def run(self) -> None:
        """Wait until the consumer is closed; for programs whose handler does the work."""
        await self._closed.wait()

    # Subscriptions and queues.

    def subscribe(self, topic: str, tag: str = "*") -> None:
        """Consume `topic` from now on.

        Args:
            topic: need not exist yet.
            tag: one tag, several as "A || B", or "*".
        """
        subscription = parse_subscription(topic, tag, now_ms())
        self._subscriptions[topic] = subscription
        self._shares.subscribe(subscription)
        self._session.routes.watch(topic)
        self._is_heartbeat_due = True
        self._changed.set()

    def unsubscribe(self, topic: str) -> None:
        """Consume `topic` no more."""
        self._subscriptions.pop(topic, None)
        self._session.routes.unwatch(topic)
        self._is_heartbeat_due = True
        self._changed.set()

    @property
    def client_id(self) -> str:
        """The id under which brokers know this consumer."""
        return self._session.id

    @property
    def assignment(self) -> frozenset[MessageQueue]:
        """The queues that are this consumer's now, the group's retry queues aside."""
        return frozenset(queue for queue in self._shares.queues if queue.topic != self._retry_topic)

    async def assigned(self) -> frozenset[MessageQueue]:
        """Wait for the first assignment, and return it."""
        await self._assigned.wait()
        return self.assignment

    # Batches.

    def __aiter__(self) -> AsyncIterator[Batch]:
        """Yield batches until the consumer is closed. Several tasks may iterate, each over its own batches."""
        return _Batches(self)

    async def next_batch(self, timeout_ms: int | None = None) -> Batch | None:
        """Return the next batch, to be committed by the caller; None after `timeout_ms`, or when closed."""
        if timeout_ms is None:
            return await self._next_batch()
        try:
            return await asyncio.wait_for(self._next_batch(), timeout_ms / 1000)
        except TimeoutError:
            return None

    async def commit_offsets(self) -> None:
        """Store the group's offsets now; errors are logged, the next round tries again."""
        await self._shares.store_offsets()

    async def _next_batch(self) -> Batch | None:
        self._check_open()
        while True:
            share = await self._ready.get()
            if share is None or self._closed.is_set():
                self._ready.put_nowait(None)  # for whoever else waits
                return None
            batch = share.take(self._batch_count_max)
            if batch is not None:
                return batch

    async def _work(self, handler: Handler) -> None:
        async for batch in self:
            try:
                result = handler(batch)
                if isawaitable(result):
                    await result
            except Exception:
                log.exception("group %s: the handler failed on %r, attempt %d", self.group, batch, batch.attempt)
                batch.retry()
            else:
                batch.commit()

    # Keeping up.

    async def _keep_balanced(self) -> None:
        pause_ms = UNBALANCED_INTERVAL_MS
        while True:
            self._changed.clear()
            is_balanced = await self._rebalance()
            limit_ms = self._rebalance_interval_ms if is_balanced else min(pause_ms, self._rebalance_interval_ms)
            try:
                async with asyncio.timeout(limit_ms / 1000):
                    await self._changed.wait()
            except TimeoutError:
                pass
            is_news = is_balanced or self._changed.is_set()
            pause_ms = UNBALANCED_INTERVAL_MS if is_news else min(2 * pause_ms, REBALANCE_INTERVAL_MS)

    async def _rebalance(self) -> bool:
        """Take up this consumer's share; False when it could not be told for some topic."""
        if self._is_heartbeat_due:
            self._is_heartbeat_due = False
            await self._find_routes(raises=False)
            await self._session.send_heartbeats()
        wanted = await self._assignments.of(tuple(self._subscriptions))
        wanted.update((topic, []) for topic in self._shares.topics - self._subscriptions.keys())
        for topic, queues in wanted.items():
            if queues is not None:
                await self._shares.take_up(topic, self._subscriptions.get(topic), queues)
        is_complete = all(queues is not None for topic, queues in wanted.items() if topic != self._retry_topic)
        if is_complete and wanted.keys() - {self._retry_topic}:
            self._assigned.set()
        return is_complete

    async def _keep_offsets(self) -> None:
        while True:
            await asyncio.sleep(self._commit_interval_ms / 1000)
            await self.commit_offsets()

    async def _find_routes(self, *, raises: bool = True) -> None:
        """Learn the routes of all subscriptions, so that heartbeats know where to go."""
        for topic in tuple(self._subscriptions):
            try:
                await self._session.routes.find(topic)
            except RouteNotFound as error:
                log.debug("group %s: %s", self.group, error)
            except OrbitError:
                if raises:
                    raise

    def _describe(self, client_id: str) -> Heartbeat:
        consumer = ConsumerInfo(
            group=self.group,
            message_model=self._message_model,
            consume_from=self._consume_from,
            subscriptions=tuple(self._subscriptions.values()),
        )
        return Heartbeat(client_id=client_id, consumers=(consumer,))

    def _route_changed(self, topic: str, _route: TopicRoute) -> None:
        if topic in self._subscriptions:
            self._changed.set()

    def _check_open(self) -> None:
        if not self._closed.is_set():  # closed while somebody iterates: the iteration ends, nothing is wrong
            super()._check_open()


class _Batches(AsyncIterator[Batch]):
    """One loop over a consumer's batches."""

    def __init__(self, consumer: PushConsumer) -> None:
        self._consumer = consumer
        self._current: Batch | None = None

    async def __anext__(self) -> Batch:
        if self._current is not None:
            self._current.leave()
            self._current = None
        batch = await self._consumer.next_batch()
        if batch is None:
            raise StopAsyncIteration
        self._current = batch
        return batch


@handlers.on(NotifyConsumerIdsChanged)
def _group_changed(consumer: PushConsumer, call: Call[NotifyConsumerIdsChanged]) -> Reply:
    if call.header.consumer_group == consumer.group:
        consumer._changed.set()
    return Reply()
