"""Answers to administrators' requests, which brokers pass on (220, 221, 307, 309): offsets, running info, one message.

Source: Java ClientRemotingProcessor, MQClientInstance.resetOffset and consumerRunningInfo.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from orbitmq.client.consume.assignment import Assignment
from orbitmq.client.consume.batch import Batch
from orbitmq.client.consume.handler_call import call_handler
from orbitmq.client.consume.handler_pools import Handler, MessageHandler
from orbitmq.client.consume.settings import ConsumerSettings
from orbitmq.client.consume.statistics import ConsumeStatistics
from orbitmq.client.session.session import ClientSession
from orbitmq.clock import now_ms
from orbitmq.codes import ResponseCode
from orbitmq.errors import CorruptRecord, HeaderError, Rejected
from orbitmq.model.group import Subscription
from orbitmq.model.message import PropertyName, StoredMessage
from orbitmq.model.route import MessageQueue
from orbitmq.net.dispatch.handlers import LATER, Call, Handlers, Later, Reply
from orbitmq.wire.bodies.consumer_info import (
    ConsumeResult,
    DirectResult,
    RunningInfo,
    encode_direct_result,
    encode_running_info,
)
from orbitmq.wire.bodies.offsets import decode_offset_table, encode_client_offsets
from orbitmq.wire.headers import ConsumeMessageDirectly, GetClientOffsets, GetRunningInfo, ResetClientOffset
from orbitmq.wire.messages.record import iter_records
from orbitmq.wire.messages.stored_messages import to_stored_message

log = logging.getLogger(__name__)


class Inspection:
    """One consumer as its administrators see it.

    Args:
        session: has the client's id and its tasks.
        settings: the consumer's.
        assignment: the queues that are read.
        subscriptions: by topic.
        statistics: sums of the work.
    """

    def __init__(
        self,
        session: ClientSession,
        settings: ConsumerSettings,
        assignment: Assignment,
        subscriptions: Mapping[str, Subscription],
        statistics: ConsumeStatistics,
    ) -> None:
        self.session = session
        self.group = settings.group
        self.assignment = assignment
        self.direct = DirectConsumption(
            settings.handler,
            settings.message_handler,
            timeout_ms=settings.consume_timeout_ms,
            is_ordered=settings.ordered,
        )
        self._subscriptions = subscriptions
        self._statistics = statistics
        self._properties = java_properties(settings, now_ms())

    def running_info(self, *, with_stacks: bool) -> RunningInfo:
        """Return what the consumer says of itself."""
        now_s = asyncio.get_running_loop().time()
        session = self.session
        own = {
            "clientIP": session.ip,
            "PROP_NAMESERVER_ADDR": "".join(f"{at};" for at in session.name_servers.configured),
        }
        return RunningInfo(
            properties={**self._properties, **own},
            subscriptions=tuple(sorted(self._subscriptions.values(), key=lambda found: found.topic)),
            queues={queue: self.assignment[queue].describe() for queue in self.assignment.queues},
            statistics={topic: self._statistics.show(topic, now_s) for topic in self._subscriptions},
            stacks=describe_stacks() if with_stacks else None,
        )

    def check_group(self, group: str) -> None:
        """Refuse a question about another group: a broker has taken this client for another one."""
        if group != self.group:
            raise Rejected(ResponseCode.SYSTEM_ERROR, f"The Consumer Group <{group:.260}> not exist in this consumer")


def java_properties(settings: ConsumerSettings, started_at_ms: int) -> dict[str, str]:
    """Return a consumer's settings by the names that Java's consumers have for them."""
    max_attempts = settings.max_attempts
    return {
        "PROP_CLIENT_VERSION": "V5_3_3",
        "PROP_CONSUMEORDERLY": str(settings.ordered).lower(),
        "PROP_CONSUMER_START_TIMESTAMP": str(started_at_ms),
        "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY",
        "PROP_THREADPOOL_CORE_SIZE": str(settings.concurrency),
        "consumeConcurrentlyMaxSpan": str(settings.window_span_max),
        "consumeFromWhere": settings.consume_from.value,
        "consumeMessageBatchMaxSize": str(settings.batch_count_max),
        "consumeThreadMax": str(settings.concurrency),
        "consumeTimeout": str(settings.consume_timeout_ms // 60_000),
        "consumerGroup": settings.group,
        "heartbeatBrokerInterval": str(settings.heartbeat_interval_ms),
        "language": "PYTHON",
        "maxReconsumeTimes": str(-1 if max_attempts is None else max_attempts - 1),
        "messageModel": settings.message_model.value,
        "persistConsumerOffsetInterval": str(settings.commit_interval_ms),
        "pollNameServerInterval": str(settings.poll_interval_ms),
        "pullBatchSize": str(settings.pull_count_max),
        "pullThresholdForQueue": str(settings.window_count_max),
        "pullThresholdSizeForQueue": str(settings.window_size_max >> 20),
        "suspendCurrentQueueTimeMillis": str(settings.retry_delay_ms),
    }


class Inspected(Protocol):
    """A consumer that can be asked; its connections are made before its parts are."""

    inspection: Inspection


handlers: Handlers[Any] = Handlers()


@handlers.on(ResetClientOffset)
def reset_offset(owner: Inspected, call: Call[ResetClientOffset]) -> Reply:
    """Go on where the broker says in the queues that are read here, and store that."""
    consumer = owner.inspection
    consumer.check_group(call.header.group)
    offsets = decode_offset_table(call.command.body) if call.command.body else {}
    mine = {queue: offsets[queue] for queue in consumer.assignment.queues if queue in offsets}
    log.info("group %s: set to %s", consumer.group, mine)
    for queue, offset in mine.items():
        consumer.assignment[queue].go_on_at(offset)
    consumer.session.tasks.spawn(consumer.assignment.store_offsets(), "reset offsets")
    return Reply()


@handlers.on(GetClientOffsets)
def get_offsets(owner: Inspected, call: Call[GetClientOffsets]) -> Reply:
    """Answer with how far each queue of a topic is done."""
    consumer = owner.inspection
    consumer.check_group(call.header.group)
    offsets = {
        queue: consumer.assignment[queue].describe().commit_offset
        for queue in sorted(consumer.assignment.queues)
        if queue.topic == call.header.topic
    }
    known = {queue: offset for queue, offset in offsets.items() if offset >= 0}
    return Reply(body=encode_client_offsets(known))


@handlers.on(GetRunningInfo)
def get_running_info(owner: Inspected, call: Call[GetRunningInfo]) -> Reply:
    """Answer with what the consumer does."""
    consumer = owner.inspection
    consumer.check_group(call.header.consumer_group)
    return Reply(body=encode_running_info(consumer.running_info(with_stacks=call.header.jstack_enable)))


@handlers.on(ConsumeMessageDirectly)
def consume_directly(owner: Inspected, call: Call[ConsumeMessageDirectly]) -> Later:
    """Give the handler one message, and answer with what came of it."""
    consumer = owner.inspection
    consumer.check_group(call.header.consumer_group)
    if not consumer.direct.has_handler:
        raise Rejected(
            ResponseCode.SYSTEM_ERROR,
            "this consumer has no handler: its program takes the messages in a loop of its own",
        )
    message = _message(call)

    async def work() -> None:
        call.answer(Reply(body=encode_direct_result(await consumer.direct.consume(message))))

    consumer.session.tasks.spawn(work(), "message on request")
    return LATER


def _message(call: Call[ConsumeMessageDirectly]) -> StoredMessage:
    """Return the message that a broker has sent along, under the topic that it was sent to."""
    for record in iter_records(call.command.body):
        message = to_stored_message(record, call.header.broker_name or "")
        topic = message.properties.get(PropertyName.RETRY_TOPIC)
        return replace(message, topic=topic) if topic else message
    raise HeaderError("consume a message directly: there is no message in the body")


class _HandlerResult:
    """What a handler has said of a message (a Settler): nothing of it reaches the group's offset."""

    is_over = False

    def __init__(self) -> None:
        self.is_failed = False

    def begun(self, batch: Batch) -> None:
        pass

    def done(self, messages: Sequence[StoredMessage]) -> bool:
        return True

    def failed(self, messages: Sequence[StoredMessage], delay_level: int) -> bool:
        self.is_failed = True
        return True

    def suspended(self, messages: Sequence[StoredMessage], delay_ms: int | None) -> bool:
        self.is_failed = True
        return True

    def rejected(self, messages: Sequence[StoredMessage]) -> bool:
        self.is_failed = True
        return True

    def deferred(self, batch: Batch) -> None:
        pass

    def batch_ended(self, batch: Batch) -> None:
        pass


class DirectConsumption:
    """Calls a handler with one message, besides all that it does already.

    Args:
        handler: takes batches.
        message_handler: takes messages.
        timeout_ms: a handler that takes longer is cancelled, and has failed.
        is_ordered: the consumer consumes in order.
    """

    def __init__(
        self,
        handler: Handler | None,
        message_handler: MessageHandler | None,
        *,
        timeout_ms: int,
        is_ordered: bool,
    ) -> None:
        self._handler = handler
        self._message_handler = message_handler
        self._timeout_ms = timeout_ms
        self._is_ordered = is_ordered

    @property
    def has_handler(self) -> bool:
        """False for a consumer that is iterated over."""
        return self._handler is not None or self._message_handler is not None

    async def consume(self, message: StoredMessage) -> DirectResult:
        """Consume a message; return how the handler has ended."""
        loop = asyncio.get_running_loop()
        began, remark = loop.time(), None
        result = _HandlerResult()
        try:
            if message.decode_error is not None:
                raise CorruptRecord(message.physical_offset, message.decode_error)
            await self._call(message, result)
            outcome = ConsumeResult.LATER if result.is_failed else ConsumeResult.SUCCESS
        except Exception as error:
            log.warning("message %s, consumed on request: %r", message.message_id, error)
            outcome, remark = ConsumeResult.THROW_EXCEPTION, f"{type(error).__name__}: {error}"
        spent_ms = round(1_000 * (loop.time() - began))
        return DirectResult(outcome=outcome, is_ordered=self._is_ordered, remark=remark, spent_ms=spent_ms)

    def _call(self, message: StoredMessage, result: _HandlerResult) -> Awaitable[None]:
        if self._message_handler is not None:
            return call_handler(self._message_handler, message, self._timeout_ms)
        assert self._handler is not None
        queue = MessageQueue(message.topic, message.broker_name, message.queue_id)
        handler: Callable[[Batch], Awaitable[object] | object] = self._handler
        return call_handler(handler, Batch(queue, (message,), result), self._timeout_ms)


SIZE_MAX = 256 * 1024
"""Characters; what does not fit is left out."""
DEPTH_MAX = 50


def describe_stacks() -> str:
    """Return the stacks of all tasks of the running loop, and of all threads."""
    parts: list[str] = []
    for task in sorted(asyncio.all_tasks(), key=lambda task: task.get_name()):
        lines = [
            f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"
            for frame in task.get_stack(limit=DEPTH_MAX)
        ]
        parts.append("\n".join([f"task {task.get_name()}", *(f"    {line}" for line in lines)]))
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():
        stack = "".join(traceback.format_stack(frame, limit=DEPTH_MAX))
        parts.append(f"thread {names.get(ident, ident)}\n{stack}")
    return "\n\n".join(parts)[:SIZE_MAX]
