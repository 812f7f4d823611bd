"""POP_MESSAGE (200050): messages that are a consumer's for a time.

Source: Java PopMessageProcessor.
"""

from __future__ import annotations

from orbitmq.broker.delivery.filters import Selection
from orbitmq.broker.handlers.popping.tables import PopTables, check_topic, with_group
from orbitmq.broker.pop.pops import PopRequest, PopResult
from orbitmq.broker.sending.answers import refusal_of
from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected, StoreUnavailable
from orbitmq.net.dispatch.handlers import LATER, Call, Handlers, Later, Reply
from orbitmq.store import PropertyTest
from orbitmq.store.queues.consume_queues import NAME_SIZE_MAX, is_directory_name
from orbitmq.wire.headers import PopMessage, PopResponse
from orbitmq.wire.pop.handles import (
    NORMAL,
    ORDER_REVIVE_QUEUE,
    RETRY_V1,
    format_message_offsets,
    format_start_offsets,
    pop_retry_topic,
    retry_kind,
)
from orbitmq.wire.pop.revive_log import COUNT_MAX

handlers: Handlers[PopTables] = Handlers()

INVISIBLE_MS_MAX = 3 * 86_400_000
"""Three days, as long as Java's timer may hold a checkpoint (timerMaxDelaySec)."""
ATTEMPT_LENGTH_MAX = 256


@handlers.on(PopMessage)
def pop(tables: PopTables, call: Call[PopMessage]) -> Reply | Later:
    """Answer with messages, or wait for the first one. A new group is made first."""
    _check(tables, call.header)
    return with_group(tables, call, lambda: _pop(tables, call))


def _check(tables: PopTables, header: PopMessage) -> None:
    """Raise Rejected for a number that no pop may have, and for names whose messages could never come again."""
    if header.count_max > COUNT_MAX:
        raise Rejected(
            ResponseCode.INVALID_PARAMETER, f"the broker[{tables.ip}] pop message's num is greater than {COUNT_MAX}"
        )
    if header.count_max < 0:
        raise Rejected(
            ResponseCode.INVALID_PARAMETER, f"maxMsgNums: {header.count_max} is not allowed, expected 0 to {COUNT_MAX}"
        )
    check_invisible_time(header.invisible_ms)
    check_attempt(header.attempt_id)
    retry_topic = pop_retry_topic(header.topic, header.consumer_group, RETRY_V1)
    if retry_kind(header.topic) == NORMAL and not is_directory_name(retry_topic):
        raise Rejected(
            ResponseCode.INVALID_PARAMETER,
            f"consumerGroup: {len(header.consumer_group)} characters are not allowed, expected at most "
            f"{NAME_SIZE_MAX - len(retry_topic) + len(header.consumer_group)}: the retry topic's name holds the group's and "
            f"the topic's {len(header.topic)}",
        )


def check_invisible_time(invisible_ms: int) -> None:
    """Raise Rejected 29 unless messages may be invisible for so long."""
    if not 0 <= invisible_ms <= INVISIBLE_MS_MAX:
        raise Rejected(
            ResponseCode.INVALID_PARAMETER,
            f"invisibleTime: {invisible_ms} is not allowed, expected 0 to {INVISIBLE_MS_MAX} ms",
        )


def check_attempt(attempt_id: str | None) -> None:
    """Raise Rejected 29 unless an attempt's name may be kept."""
    if attempt_id is not None and len(attempt_id) > ATTEMPT_LENGTH_MAX:
        raise Rejected(
            ResponseCode.INVALID_PARAMETER,
            f"attemptId: {len(attempt_id)} characters are not allowed, expected at most {ATTEMPT_LENGTH_MAX}",
        )


def _pop(tables: PopTables, call: Call[PopMessage]) -> Reply | Later:
    header, pops = call.header, tables.pop.pops
    if not header.count_max:
        return _nothing(tables, header, ResponseCode.POLLING_TIMEOUT)
    selection: Selection = None
    if header.expression:
        selection = tables.filters.of_request(header.expression, header.expression_type, call.now_ms)
    asked = PopRequest(
        header.topic, header.consumer_group, header.queue_id, header.count_max, header.invisible_ms, header.init_mode,
        selection, bool(header.order), header.attempt_id,
    )  # fmt: skip
    # What others have not read yet leaves no room for more, and expressions have their share of a turn.
    is_put_off = not call.connection.has_room(0) or (isinstance(selection, PropertyTest) and pops.is_busy)
    reply = None if is_put_off else _attempt(tables, header, asked)
    if reply is not None:
        return reply
    return _wait(tables, call, asked, is_put_off=is_put_off)


def _attempt(tables: PopTables, header: PopMessage, asked: PopRequest) -> Reply | None:
    """Return the answer when there are messages now."""
    check_topic(tables, header)
    pops = tables.pop.pops
    if pops.is_full:
        pops.over_checkpoints += 1
        raise Rejected(
            ResponseCode.FLOW_CONTROL,
            "too many popped messages wait for their acks: popCheckpointsMax allows no more checkpoints",
        )
    try:
        popped = pops.pop(asked)
    except StoreUnavailable as error:
        raise refusal_of(error) from None
    if popped.rest_count and (popped.count or popped.is_cut):
        tables.pop.waiting.wake_soon(asked.topic, asked.group, asked.queue_id)
    if not popped.count:
        if asked.is_ordered:
            tables.pop.wake_when_free((asked.topic, asked.group, asked.queue_id))
        return None
    tables.store.bound_unsynced(tables.store.max_physical_offset)
    return Reply(remark="FOUND", header=_response(header, popped), body=b"".join(popped.records))


def _wait(tables: PopTables, call: Call[PopMessage], asked: PopRequest, *, is_put_off: bool) -> Reply | Later:
    header = call.header
    selection = asked.selection
    if header.poll_ms > 0:
        is_parked = tables.pop.waiting.park(
            call.connection,
            call.command,
            (asked.topic, asked.group, asked.queue_id),
            selection.tag_codes if isinstance(selection, PropertyTest) else selection,
            header.poll_ms,
            lambda: _attempt(tables, header, asked),
            lambda: _nothing(tables, header, ResponseCode.POLLING_TIMEOUT),
        )
        if not is_parked:
            return _nothing(tables, header, ResponseCode.POLLING_FULL)
        if is_put_off:
            tables.pop.waiting.wake(asked.topic, asked.group, asked.queue_id)
        return LATER
    return _nothing(tables, header, ResponseCode.POLLING_TIMEOUT)


def _nothing(tables: PopTables, header: PopMessage, code: ResponseCode) -> Reply:
    queue_id = ORDER_REVIVE_QUEUE if header.order else tables.pop.revive_log.next_queue_id()
    return Reply(code, "NO_MESSAGE_IN_QUEUE", _response(header, PopResult(tables.pop.pops.now_ms(), queue_id)))


def _response(header: PopMessage, popped: PopResult) -> PopResponse:
    return PopResponse(
        pop_time_ms=popped.pop_time_ms,
        invisible_ms=header.invisible_ms,
        revive_queue_id=popped.revive_queue_id,
        rest_count=popped.rest_count,
        start_offset_info=format_start_offsets(popped.queues),
        message_offset_info=format_message_offsets(popped.queues),
        order_count_info=";".join(popped.order_counts) if header.order else None,
    )
