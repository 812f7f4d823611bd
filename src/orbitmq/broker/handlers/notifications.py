"""NOTIFICATION (200054), which says when there are messages to pop, and POLLING_INFO (200055): how many pops wait.

Source: Java NotificationProcessor, PollingInfoProcessor.
"""

from __future__ import annotations

from orbitmq.broker.handlers.pop import PopTables, check_attempt, check_topic, with_group
from orbitmq.errors import Rejected
from orbitmq.net.dispatch.handlers import LATER, Call, Handlers, Later, Reply
from orbitmq.wire.headers import GetPollingCount, PollingCountResponse, PopNotification, PopNotificationResponse

handlers: Handlers[PopTables] = Handlers()


@handlers.on(PopNotification)
def notify(tables: PopTables, call: Call[PopNotification]) -> Reply | Later:
    """Answer as soon as there are messages, which stay where they are, or when the time is over."""
    return with_group(tables, call, lambda: _notify(tables, call))


def _notify(tables: PopTables, call: Call[PopNotification]) -> Reply | Later:
    header = call.header
    check_attempt(header.attempt_id)
    reply = _attempt(tables, header)
    if reply is not None:
        return reply
    if header.poll_ms <= 0:
        return _nothing()
    is_held = tables.pop.notices.hold(
        call.connection,
        call.command,
        (header.topic, header.consumer_group, header.queue_id),
        None,
        header.poll_ms,
        lambda: _attempt(tables, header),
        lambda: _last_attempt(tables, header),
    )
    return LATER if is_held else Reply(header=PopNotificationResponse(has_message=False, polling_full=True))


def _attempt(tables: PopTables, header: PopNotification) -> Reply | None:
    check_topic(tables, header)
    place = header.topic, header.consumer_group, header.queue_id
    pops = tables.pop.pops
    if not header.order:
        has_messages = pops.has_messages(*place)
    elif not (has_messages := pops.has_messages_in_order(*place, header.attempt_id)):
        tables.pop.wake_when_free(place)
    return Reply(header=PopNotificationResponse(has_message=True)) if has_messages else None


def _last_attempt(tables: PopTables, header: PopNotification) -> Reply:
    """Look once more when the time is over: an arrival wakes one request, and the others may still be told of the message."""
    try:
        return _attempt(tables, header) or _nothing()
    except Rejected as error:
        return Reply(error.code, remark=error.remark)


def _nothing() -> Reply:
    return Reply(header=PopNotificationResponse(has_message=False))


@handlers.on(GetPollingCount)
def get_polling_count(tables: PopTables, call: Call[GetPollingCount]) -> Reply | Later:
    """Answer with how many pops of a group wait at a queue."""
    header = call.header

    def answer() -> Reply:
        place = header.topic, header.consumer_group, header.queue_id
        return Reply(header=PollingCountResponse(polling_count=tables.pop.waiting.held.count_at(place)))

    return with_group(tables, call, answer)
