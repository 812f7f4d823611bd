"""A PushConsumer's membership in its group: its session, and the parts that read queues and call handlers.

Source: Java DefaultMQPushConsumerImpl.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path

from orbitmq.client.consume import inspection
from orbitmq.client.consume.assigned_queue import Consumption
from orbitmq.client.consume.assignment import Assignment
from orbitmq.client.consume.batch import Settler
from orbitmq.client.consume.handler_pools import HandlerPool, MessagePool, ReadyQueues
from orbitmq.client.consume.inspection import Inspection
from orbitmq.client.consume.offset_stores import BrokerOffsets, LocalOffsets
from orbitmq.client.consume.queue_allocator import QueueAllocator
from orbitmq.client.consume.queue_locks import HeldQueueLocks
from orbitmq.client.consume.rebalancer import Rebalancer, RebalanceRequests
from orbitmq.client.consume.send_backs import Drops, SendBacks
from orbitmq.client.consume.settings import ConsumerSettings
from orbitmq.client.consume.start_offsets import QueueOffsets, StartOffsets
from orbitmq.client.consume.statistics import ConsumeStatistics
from orbitmq.client.consume.subscriptions import subscribe
from orbitmq.client.session.client_id import DEFAULT_INSTANCE
from orbitmq.client.session.session import ClientSession
from orbitmq.client.trace.settlers import TracedSettler
from orbitmq.client.trace.tracer import Tracer
from orbitmq.clock import now_ms
from orbitmq.errors import RemoteRefused
from orbitmq.model.group import ConsumeFrom, ConsumerInfo, Heartbeat, Subscription
from orbitmq.net.dispatch.handlers import Call, Handlers, Reply
from orbitmq.wire.headers import NotifyConsumerIdsChanged

handlers: Handlers[GroupMember] = Handlers()
handlers.include(inspection.handlers)


class GroupMember:
    """The parts of one PushConsumer, made and joined; the consumer opens and closes them.

    Args:
        settings: the consumer's.
    """

    def __init__(
        self, settings: ConsumerSettings, on_final: Callable[[RemoteRefused], None] = lambda _refusal: None
    ) -> None:
        self._on_final = on_final
        self.settings = settings
        self.subscriptions: dict[str, Subscription] = {}
        self.session = ClientSession(
            settings.name_servers,
            instance=settings.instance or (DEFAULT_INSTANCE if settings.is_broadcasting else None),
            describe=self._describe,
            handlers=handlers,
            service=self,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
            poll_interval_ms=settings.poll_interval_ms,
            credentials=settings.credentials,
            tls=settings.tls,
        )
        group, trace_topic = settings.group, settings.trace_topic
        self.tracer = Tracer(self.session, group=group, kind="CONSUME", topic=trace_topic) if settings.trace else None
        self.ready = ReadyQueues(settings.batch_count_max if settings.message_handler is None else 1)
        self.rebalance_requests = RebalanceRequests(settings.retry_topic)
        self._send_backs = (
            Drops(group)
            if settings.is_broadcasting
            else SendBacks(self.session, group, settings.policy, on_retry=self.rebalance_requests.require_all)
        )
        self.pool = self._make_pool()
        self.local_offsets = _local_offsets(settings) if settings.is_broadcasting else None
        statistics = ConsumeStatistics(time.monotonic())
        allocator = QueueAllocator(self.session, group, settings.message_model, settings.strategy)
        self.assignment = self._make_assignment(statistics, allocator)
        self.rebalancer = Rebalancer(
            self.session,
            allocator,
            self.assignment,
            self.subscriptions,
            self.rebalance_requests,
            interval_ms=settings.rebalance_interval_ms,
        )
        self.inspection = Inspection(self.session, settings, self.assignment, self.subscriptions, statistics)

    def subscribe(self, topic: str, tag: str = "*", sql: str | None = None) -> None:
        """Consume a topic from now on.

        Raises:
            InvalidArgument: the topic, tag or expression is wrong; InvalidExpression says where.
        """
        subscription = self.subscriptions[topic] = subscribe(topic, tag, sql, now_ms())
        self.assignment.subscribe(subscription)
        self.session.routes.watch(topic)
        self.rebalance_requests.note_subscriptions()

    def unsubscribe(self, topic: str) -> None:
        """Consume a topic no more."""
        self.subscriptions.pop(topic, None)
        self.session.routes.unwatch(topic)
        self.rebalance_requests.note_subscriptions()

    def _make_pool(self) -> HandlerPool | MessagePool | None:
        settings = self.settings
        if settings.handler is not None:
            return HandlerPool(
                settings.group,
                self.ready,
                settings.handler,
                concurrency=settings.concurrency,
                timeout_ms=settings.consume_timeout_ms,
                tasks=self.session.tasks,
            )
        if settings.message_handler is not None:
            is_keyed = settings.key is not None or settings.ordered
            return MessagePool(
                settings.group,
                self.ready,
                settings.message_handler,
                key=settings.key if is_keyed else attrgetter("sharding_key"),
                policy=settings.policy,
                send_backs=self._send_backs,
                concurrency=settings.concurrency,
                timeout_ms=settings.consume_timeout_ms,
                tasks=self.session.tasks,
            )
        return None

    def _make_assignment(self, statistics: ConsumeStatistics, allocator: QueueAllocator) -> Assignment:
        session, settings, policy = self.session, self.settings, self.settings.policy
        start, start_ms = settings.consume_from, settings.consume_from_ms
        store = self.local_offsets or BrokerOffsets(
            session, settings.group, in_memory_queue_at_zero=start is ConsumeFrom.LAST
        )
        timeout_ms = None if policy.is_in_place else settings.consume_timeout_ms
        return Assignment(
            session,
            settings.group,
            store,
            StartOffsets(
                store,
                QueueOffsets(session),
                start,
                start_ms,
                stores=True,
                has_appeared=allocator.has_appeared if settings.is_broadcasting else lambda _queue: False,
            ),
            Consumption(
                policy=policy,
                send_backs=self._send_backs,
                tasks=session.tasks,
                on_ready=self.ready.put,
                statistics=statistics.topics,
                is_shared=settings.message_handler is not None,
                settler_of=self._settler_of,
                expires_ms=None if settings.has_handler else timeout_ms,
                deferred_ms=timeout_ms,
                check_loop=session.owning_loop.check,
            ),
            settings=settings.pull_settings,
            commits_with_pulls=not settings.is_broadcasting,
            windows_size_max=settings.windows_size_max,
            locks=HeldQueueLocks(session, settings.group) if settings.locks_queues else None,
            on_lost=self.rebalance_requests.add,
            on_final=self._on_final,
        )

    def _settler_of(self, queue: Settler) -> Settler:
        return queue if self.tracer is None else TracedSettler(queue, self.tracer)

    def _describe(self, client_id: str) -> Heartbeat:
        consumer = ConsumerInfo(
            group=self.settings.group,
            message_model=self.settings.message_model,
            consume_from=self.settings.consume_from,
            subscriptions=tuple(self.subscriptions.values()),
        )
        return Heartbeat(client_id=client_id, consumers=(consumer,))


@handlers.on(NotifyConsumerIdsChanged)
def _group_changed(member: GroupMember, call: Call[NotifyConsumerIdsChanged]) -> Reply:
    if call.header.consumer_group == member.settings.group:
        member.rebalance_requests.add()
    return Reply()


def _local_offsets(settings: ConsumerSettings) -> LocalOffsets:
    directory = Path.home() / ".orbitmq" / "offsets" if settings.offset_dir is None else Path(settings.offset_dir)
    return LocalOffsets(directory, settings.group)
