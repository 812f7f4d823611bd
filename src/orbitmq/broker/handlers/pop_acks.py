"""ACK_MESSAGE (200051), BATCH_ACK_MESSAGE (200151) and CHANGE_MESSAGE_INVISIBLETIME (200053): what happens to popped messages.

Source: Java AckMessageProcessor, ChangeInvisibleTimeProcessor.
"""

from __future__ import annotations

from collections.abc import Iterable

from orbitmq.broker.handlers.pop import PopTables, check_broker, check_invisible_time, parse_ack
from orbitmq.broker.sending.answers import refusal_of, when_safe
from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected, StoreUnavailable
from orbitmq.net.dispatch.handlers import Call, Handlers, Later, Reply
from orbitmq.net.dispatch.work import SMALL_BODY_SIZE, Work, in_turns
from orbitmq.store import AppendResult
from orbitmq.wire.headers import AckMessage, BatchAckMessages, ChangeInvisibleTime, ChangeInvisibleTimeResponse
from orbitmq.wire.pop.batch_acks import decode_batch_acks
from orbitmq.wire.pop.handles import ORDER_REVIVE_QUEUE, pop_retry_topic
from orbitmq.wire.pop.ordered_batches import OrderedPlace
from orbitmq.wire.pop.revive_log import CheckpointKey, PopCheckpoint

handlers: Handlers[PopTables] = Handlers()

_BODY_SIZE_MAX = 4 * 1024 * 1024
_STEP_COUNT = 100
"""Checkpoints of a request that are acknowledged in one step: a few milliseconds."""


@handlers.on(AckMessage)
def acknowledge(tables: PopTables, call: Call[AckMessage]) -> Reply | Later:
    """Note that a message is done. One that another consumer got meanwhile is left alone: nothing happens then."""
    header = call.header
    handle, key = parse_ack(tables, header)
    begin = tables.store.min_offset(header.topic, header.queue_id)
    end = tables.store.max_offset(header.topic, header.queue_id)
    is_there = begin <= header.queue_offset <= end
    if not is_there and not tables.store.is_hidden(header.topic, header.queue_id, header.queue_offset):
        raise Rejected(
            ResponseCode.NO_MESSAGE,
            f"offset is illegal, key:{header.topic}@{header.queue_id}, commit:{header.queue_offset}, store:{begin}~{end}",
        )
    if handle.revive_queue_id == ORDER_REVIVE_QUEUE:
        _acknowledge_in_order(tables, _place_of(key), (header.queue_offset,), handle.pop_time_ms)
        return Reply()
    try:
        result = tables.pop.revive_log.acknowledge(key, (header.queue_offset,))
    except StoreUnavailable as error:
        raise refusal_of(error) from None
    if result is not None:
        tables.stats.acknowledged(header.topic, header.consumer_group, 1)
    return _when_safe(tables, call, Reply(), result)


@handlers.on(BatchAckMessages, body_size_max=_BODY_SIZE_MAX)
def acknowledge_batch(tables: PopTables, call: Call[BatchAckMessages]) -> Reply | Later:
    """Note that messages of many checkpoints are done."""
    return in_turns(call, _acknowledge_batch(tables, call))


def _acknowledge_batch(tables: PopTables, call: Call[BatchAckMessages]) -> Work:
    if len(call.command.body) > SMALL_BODY_SIZE:
        yield
    body = decode_batch_acks(call.command.body) if call.command.body else None
    if body is None or not body.entries:
        raise Rejected(ResponseCode.NO_MESSAGE, "acks: there is none in the body")
    if body.broker_name:
        check_broker(tables, body.broker_name)
    # One that is wrong is found before anything is noted. Parsed again below: kept, thousands of them would fill the memory.
    for number, _ in enumerate(body.acks(), 1):
        if not number % _STEP_COUNT:
            yield
    result, reply = None, Reply()
    try:
        for number, ack in enumerate(body.acks(), 1):
            if not number % _STEP_COUNT:
                yield
            topic = pop_retry_topic(ack.topic, ack.group, ack.retry)
            key = CheckpointKey(topic, ack.group, ack.queue_id, ack.start_offset, ack.pop_time_ms, tables.broker_name)
            if ack.revive_queue_id != ORDER_REVIVE_QUEUE:
                noted = tables.pop.revive_log.acknowledge(key, ack.offsets)
                if noted is not None:
                    tables.stats.acknowledged(topic, ack.group, len(ack.offsets))
                    result = noted
            elif (refusal := _try_in_order(tables, key, ack.offsets)) is not None:
                reply = refusal
    except StoreUnavailable as error:
        raise refusal_of(error) from None
    return _when_safe(tables, call, reply, result)


def _try_in_order(tables: PopTables, key: CheckpointKey, offsets: Iterable[int]) -> Reply | None:
    """Acknowledge messages of one batch; what is refused keeps the others of the request from nothing."""
    try:
        _acknowledge_in_order(tables, _place_of(key), offsets, key.pop_time_ms)
    except Rejected as error:
        return Reply(error.code, error.remark)
    return None


def _acknowledge_in_order(tables: PopTables, place: OrderedPlace, offsets: Iterable[int], pop_time_ms: int) -> None:
    is_free = False
    for offset in offsets:
        is_free |= tables.pop.pops.acknowledge_in_order(place, offset, pop_time_ms)
    if is_free:
        tables.pop.wake_in_order(place)


def _place_of(key: CheckpointKey) -> OrderedPlace:
    return key.topic, key.group, key.queue_id


@handlers.on(ChangeInvisibleTime)
def change_invisible_time(tables: PopTables, call: Call[ChangeInvisibleTime]) -> Reply | Later:
    """Restart a message's invisible time, from now on; its new checkpoint has its own handle."""
    header = call.header
    check_invisible_time(header.invisible_ms)
    handle, key = parse_ack(tables, header)
    if handle.revive_queue_id == ORDER_REVIVE_QUEUE:
        return _change_in_order(tables, key, header.queue_offset, header.invisible_ms)
    log = tables.pop.revive_log
    found = log.checkpoints.find(key)
    if found is None or header.queue_offset not in found.offsets_left:
        raise _not_out(key, header.queue_offset)
    # Later than the pop in any case: a checkpoint is told from another of the same message by its time.
    now_ms = max(tables.pop.pops.now_ms(), handle.pop_time_ms + 1)
    new_key = key._replace(start_offset=header.queue_offset, pop_time_ms=now_ms)
    try:
        log.add(PopCheckpoint(new_key, (header.queue_offset,), header.invisible_ms), found.revive_queue_id)
        result = log.acknowledge(key, (header.queue_offset,))
    except StoreUnavailable as error:
        raise refusal_of(error) from None
    tables.stats.checkpointed(header.topic, header.consumer_group)
    tables.stats.acknowledged(header.topic, header.consumer_group, 1)
    response = ChangeInvisibleTimeResponse(
        pop_time_ms=now_ms, invisible_ms=header.invisible_ms, revive_queue_id=found.revive_queue_id
    )
    return _when_safe(tables, call, Reply(header=response), result)


def _change_in_order(tables: PopTables, key: CheckpointKey, queue_offset: int, invisible_ms: int) -> Reply:
    """Restart the invisible time of a message that blocks its queue; its handle keeps the time of the pop."""
    place = _place_of(key)
    visible_at_ms = tables.pop.ordered.change_time(place, queue_offset, key.pop_time_ms, invisible_ms)
    if visible_at_ms is None:
        raise _not_out(key, queue_offset)
    tables.pop.wake_in_order(place)
    return Reply(
        header=ChangeInvisibleTimeResponse(
            pop_time_ms=key.pop_time_ms,
            invisible_ms=visible_at_ms - key.pop_time_ms,
            revive_queue_id=ORDER_REVIVE_QUEUE,
        )
    )


def _not_out(key: CheckpointKey, queue_offset: int) -> Rejected:
    remark = f"offset: {queue_offset} of {key.topic:.400} queue {key.queue_id} is acknowledged, or popped again by another consumer"
    return Rejected(ResponseCode.NO_MESSAGE, remark)


def _when_safe(
    tables: PopTables,
    call: Call[AckMessage] | Call[BatchAckMessages] | Call[ChangeInvisibleTime],
    reply: Reply,
    result: AppendResult | None,
) -> Reply | Later:
    """Answer now, or when the last record is as safe as a send."""
    if result is None:
        return reply

    return when_safe(tables.answers, call, result.end, reply)
