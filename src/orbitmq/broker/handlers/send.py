"""Sending: one message (10, 310) or a batch (320).

The checks come in Java's order. A message that asks for a delay level waits in the schedule topic, one that asks for a time of
its own in the timers' topic, the half of a transaction in the half topic.

Source: Java SendMessageProcessor.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from orbitmq.broker.delivery.delay import level_of
from orbitmq.broker.handlers.logical_queues import serve_send
from orbitmq.broker.sending.answers import SendCall, refusal_of
from orbitmq.broker.sending.batches import store_batch
from orbitmq.broker.sending.tables import SendTables, check_sizes, host_of
from orbitmq.broker.timers.times import ASKING, asks_for_time, without_times
from orbitmq.broker.transactions.messages import half_message, is_prepared
from orbitmq.codes import ResponseCode
from orbitmq.errors import InvalidArgument, OrbitError, Rejected, StoreUnavailable
from orbitmq.model.message import PropertyName, SysFlag, parse_priority
from orbitmq.model.topic import DLQ_PREFIX, HALF_TOPIC, RETRY_PREFIX, SCHEDULE_TOPIC, TopicConfig
from orbitmq.net.dispatch.handlers import LATER, Call, Handlers, Later, Reply
from orbitmq.net.dispatch.work import in_turns
from orbitmq.store import Draft
from orbitmq.wire.headers import SendBatch, SendMessage, SendMessageV2, SendReply, SendReplyV2
from orbitmq.wire.messages.message_id import offset_message_id
from orbitmq.wire.messages.properties import format_properties, parse_properties

handlers: Handlers[SendTables] = Handlers()

PRIORITY_MARK = f"{PropertyName.PRIORITY}\x01".encode()
_OTHER_TYPES = (PropertyName.DELAY, *ASKING, PropertyName.SHARDING_KEY)
"""Properties of types of messages that have no priority (Java: TopicMessageType.parseFromMessageProperty)."""
_NO_DELAY = f"{PropertyName.DELAY}\x01-1\x02".encode()


@handlers.on(SendMessage)
def send_message(tables: SendTables, call: Call[SendMessage]) -> Reply | Later:
    """Store one message of an older client."""
    if tables.static.mappings:
        return serve_send(tables.static, call, lambda: store_one(tables, call))
    return store_one(tables, call)


@handlers.on(SendMessageV2)
def send_message_v2(tables: SendTables, call: Call[SendMessageV2]) -> Reply | Later:
    """Store one message, or a batch that travels under this code."""
    if tables.static.mappings:
        store = take_batch if call.header.batch else store_one
        return serve_send(tables.static, call, lambda: store(tables, call))
    return take_batch(tables, call) if call.header.batch else store_one(tables, call)


@handlers.on(SendBatch)
def send_batch(tables: SendTables, call: Call[SendBatch]) -> Reply | Later:
    """Store many messages of one queue."""
    if tables.static.mappings:
        return serve_send(tables.static, call, lambda: take_batch(tables, call))
    return take_batch(tables, call)


def store_one(tables: SendTables, call: SendCall) -> Reply | Later:
    """Check one message, append it, and answer when it is as safe as the flush mode promises."""
    _check_waiting(tables, call)
    header, queue_resolver = call.header, tables.queue_resolver
    config = queue_resolver.open_topic(header.topic)
    if config is None:
        if queue_resolver.is_missing(header.topic):
            return make_topic(tables, call, partial(store_one, tables, call))
        config = queue_resolver.resolve(header, call.now_ms)
    draft = draft_of(tables, call, config)
    if call.rewrite is None:  # else a logical queue has chosen: its readers come to no other one
        draft = by_priority(draft, config.write_queue_count)
    stored = stored_form(tables, draft)
    if stored.sys_flag & SysFlag.FOR_THE_BROKER:
        raise _refused_flag(stored.sys_flag)
    try:
        result = tables.store.append(stored)
    except StoreUnavailable as error:
        raise refusal_of(error) from None
    recall_handle = None
    if stored.topic is not draft.topic:
        recall_handle = note_waiting(tables, draft.topic, stored, call.now_ms)
    tables.stats.put(stored.topic, 1, result.size)
    message_id = offset_message_id(tables.answers.host, result.physical_offset)
    return tables.answers.when_durable(call, draft.queue_id, message_id, result.queue_offset, result.end, recall_handle)


def _refused_flag(sys_flag: int) -> Rejected:
    """Return why a message is not stored whose readers would not get it, or would take its body for what it is not."""
    if sys_flag & SysFlag.TRANSACTION_MASK:
        remark = "sysFlag has bits of a transaction, but TRAN_MSG is not true"
    else:
        remark = (
            f"sysFlag: {sys_flag} has the bit of a batch in a message's body, which topics of type BatchCQ have alone"
        )
    return Rejected(ResponseCode.MESSAGE_ILLEGAL, remark)


def note_waiting(tables: SendTables, topic: str, stored: Draft, now_ms: int) -> str | None:
    """Take note of a message that waits in another topic than its own; return what it can be taken back with."""
    if stored.topic == SCHEDULE_TOPIC:
        tables.delays.wake()
    elif stored.topic == HALF_TOPIC:
        _count_half(tables, topic, now_ms)
    else:
        tables.timers.wake()
        if not topic.startswith(RETRY_PREFIX):
            return tables.timers.recall_handle(topic, stored)
    return None


def _half_message(tables: SendTables, draft: Draft, properties: dict[str, str]) -> Draft:
    if tables.transactions is None:
        remark = f"the broker[{tables.answers.host.ip}] sending transaction message is forbidden"
        raise Rejected(ResponseCode.NO_PERMISSION, remark)
    return half_message(draft, properties)


def _count_half(tables: SendTables, topic: str, now_ms: int) -> None:
    assert tables.transactions is not None
    tables.transactions.counts.prepared(topic, now_ms)


def take_batch(tables: SendTables, call: SendCall) -> Reply | Later:
    """Check where a batch goes, and store it in as many turns as it takes."""
    _check_waiting(tables, call)
    header = call.header
    if header.topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
        raise Rejected(ResponseCode.MESSAGE_ILLEGAL, "batch request does not support retry group")
    if header.sys_flag & SysFlag.FOR_THE_BROKER:
        raise _refused_flag(header.sys_flag)
    queue_resolver = tables.queue_resolver
    config = queue_resolver.open_topic(header.topic)
    if config is None:
        if queue_resolver.is_missing(header.topic):
            return make_topic(tables, call, partial(take_batch, tables, call))
        config = queue_resolver.resolve(header, call.now_ms)
    return in_turns(call, store_batch(tables, call, config.topic, queue_resolver.choose_queue(config, header)))


def make_topic(
    tables: SendTables, call: SendCall | Call[SendReply] | Call[SendReplyV2], serve: Callable[[], Reply | Later]
) -> Later:
    """Make the topic that a send lacks, and serve the send when it is on the disk. No other request waits for that."""

    def made(refusal: Rejected | None) -> None:
        try:
            if refusal is not None:
                raise refusal
            reply = serve()
        except Rejected as error:
            reply = Reply(error.code, error.remark)
        except OrbitError as error:
            reply = Reply(ResponseCode.SYSTEM_ERROR, str(error))
        if reply is not LATER:
            call.answer(reply)

    make = partial(tables.queue_resolver.make, call.header, call.now_ms)
    tables.auto_creation.admit_topic(call.connection, call.header.topic, make, made, size=len(call.command.body))
    return LATER


def _check_waiting(tables: SendTables, call: SendCall) -> None:
    """Refuse a send that has waited too long for its turn: its producer will try another broker sooner than time out.

    Source: Java BrokerFastFailure.
    """
    waited_ms = call.connection.waited_ms
    if waited_ms and tables.wait_ms_max is not None and waited_ms > tables.wait_ms_max:
        tables.stats.fast_failure_count += 1
        raise Rejected(
            ResponseCode.SYSTEM_BUSY,
            f"[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, period in queue: {waited_ms}ms",
        )


def draft_of(tables: SendTables, call: SendCall | Call[SendReply] | Call[SendReplyV2], config: TopicConfig) -> Draft:
    """Return a message as it was sent, for one of its topic's queues."""
    header = call.header
    properties = (header.properties or "").encode()
    if config.topic is not header.topic and config.topic != header.topic:
        properties = _given_up(properties)
    return Draft(
        config.topic,
        tables.queue_resolver.choose_queue(config, header),
        call.command.body,
        properties,
        header.flag,
        header.sys_flag,
        header.born_at_ms,
        host_of(call.connection.remote),
        header.reconsume_times or 0,
    )


def by_priority(draft: Draft, queue_count: int) -> Draft:
    """Return a message for the queue of its priority: the one of this number, or the last one.

    A message of another type has none, whatever it says. Source: Java SendMessageProcessor.sendMessage of 5.5.0.
    """
    if PRIORITY_MARK not in draft.properties:
        return draft
    properties = parse_properties(draft.properties)
    priority = parse_priority(properties.get(PropertyName.PRIORITY, ""))
    if priority is None:
        return draft
    if is_prepared(properties) or any(name in properties for name in _OTHER_TYPES):
        del properties[PropertyName.PRIORITY]
        return draft._replace(properties=format_properties(properties))
    return draft._replace(queue_id=min(priority, queue_count - 1))


def stored_form(tables: SendTables, draft: Draft) -> Draft:
    """Return a message as it is stored.

    Raises:
        Rejected: 13, it is too long, or its properties ask for something that this version does not have.
    """
    check_sizes(tables, len(draft.body), 0)
    plain = tables.properties.plain(draft.properties)
    stored = special_message(tables, draft) if plain is None else draft._replace(properties=plain)
    check_sizes(tables, 0, len(stored.properties))
    return stored


def special_message(tables: SendTables, draft: Draft) -> Draft:
    """Return the stored form of a message whose properties ask for something special.

    Raises:
        Rejected: 13, for something that this version does not have, or for a time that it does not take.
    """
    properties = tables.properties.parse(draft.properties)
    level = level_of(properties)
    try:
        if tables.store.lmq is not None and PropertyName.LMQ_QUEUES in properties:
            tables.store.lmq.check(draft.properties)
        # A message that comes back delayed is none: clients before 4.6.1 left TRAN_MSG in it.
        if is_prepared(properties) and not (level and draft.reconsume_times):
            return _half_message(tables, draft, properties)
        if level:
            return tables.delays.waiting(draft, without_times(properties), level)
        if asks_for_time(properties):
            return tables.timers.waiting(draft, properties)
        return draft._replace(properties=format_properties(properties))
    except InvalidArgument as error:
        raise Rejected(ResponseCode.MESSAGE_ILLEGAL, str(error)) from None


def _given_up(properties: bytes) -> bytes:
    """Return the properties of a dead letter, which waits for nothing any more, whatever it asked for before."""
    separator = b"" if not properties or properties.endswith(b"\x02") else b"\x02"
    return properties + separator + _NO_DELAY
