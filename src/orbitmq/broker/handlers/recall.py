"""Recalls (370): a message that waits for its time is taken back.

Source: Java RecallMessageProcessor.
"""

from __future__ import annotations

from orbitmq.broker.handlers.send import special_message
from orbitmq.broker.sending.answers import NOT_DURABLE
from orbitmq.broker.sending.tables import host_of
from orbitmq.broker.service import BrokerService
from orbitmq.broker.timers.times import parse_long
from orbitmq.codes import ResponseCode
from orbitmq.errors import InvalidArgument, Rejected, StoreUnavailable
from orbitmq.model.message import PropertyName, TimerProperty
from orbitmq.net.dispatch.handlers import LATER, Call, Handlers, Later, Reply
from orbitmq.store import Draft
from orbitmq.wire.headers import RecallMessage, RecallResponse
from orbitmq.wire.messages.properties import format_properties
from orbitmq.wire.messages.recall_handle import RecallHandle, parse_recall_handle

_TAG = "_RECALL_TAG_"
_BODY = b"0"


handlers: Handlers[BrokerService] = Handlers()


@handlers.on(RecallMessage)
def recall_message(broker: BrokerService, call: Call[RecallMessage]) -> Reply | Later:
    """Let a message not be delivered: a recall message, due at the same time, takes it back then."""
    region = {PropertyName.MSG_REGION: broker.config.region_id}
    try:
        handle = _handle(broker, call)
        draft = special_message(broker.sends.sending, _draft(call, handle))
        result = broker.sends.sending.store.append(draft)
    except Rejected as refusal:
        return Reply(refusal.code, refusal.remark, ext_fields=region)
    except StoreUnavailable as error:
        return Reply(ResponseCode.SYSTEM_ERROR, f"recall failed, execute error: {error}", ext_fields=region)
    broker.sends.timers.wake()
    reply = Reply(header=RecallResponse(message_id=handle.unique_key, region_id=broker.config.region_id))

    def synced(is_durable: bool | None) -> None:
        call.answer(reply if is_durable or is_durable is None else NOT_DURABLE)

    return reply if broker.sends.sending.store.wait_durable(result.end, synced) else LATER


def _handle(broker: BrokerService, call: Call[RecallMessage]) -> RecallHandle:
    """Return what is to be taken back. Raises Rejected with Java's codes, in Java's order."""
    header, queue_resolver = call.header, broker.sends.sending.queue_resolver
    if not broker.config.recall_message_enable:
        raise Rejected(ResponseCode.NO_PERMISSION, "recall failed, operation is forbidden (see recallMessageEnable)")
    if not queue_resolver.is_writable and not broker.config.allow_recall_when_broker_not_writeable:
        raise Rejected(ResponseCode.SERVICE_NOT_AVAILABLE, "recall failed, broker service not available")
    if queue_resolver.topics.get(header.topic) is None:
        raise Rejected(ResponseCode.TOPIC_NOT_EXIST, f"recall failed, the topic[{header.topic:.260}] not exist")
    try:
        handle = parse_recall_handle(header.recall_handle)
    except InvalidArgument as error:
        raise Rejected(ResponseCode.ILLEGAL_OPERATION, f"recall handle is invalid: {error}") from None
    if handle.topic != header.topic:
        raise Rejected(ResponseCode.ILLEGAL_OPERATION, "recall failed, topic not match")
    if handle.broker_name != broker.config.broker_name:
        raise Rejected(ResponseCode.ILLEGAL_OPERATION, "recall failed, broker service not available")
    time_ms = parse_long(handle.time)
    left_ms = -1 if time_ms is None else time_ms - call.now_ms
    if not 0 < left_ms < broker.sends.timers.rules.delay_s_max * 1000:
        raise Rejected(
            ResponseCode.ILLEGAL_OPERATION,
            f"recall failed, timestamp invalid: {handle.time:.40} is not within the next "
            f"{broker.sends.timers.rules.delay_s_max} s (timerMaxDelaySec)",
        )
    return handle


def _draft(call: Call[RecallMessage], handle: RecallHandle) -> Draft:
    """Return the message that takes another one back, as a producer would send it.

    Source: Java RecallMessageProcessor.buildMessage.
    """
    properties = {
        PropertyName.TAGS: _TAG,
        TimerProperty.DELETE_KEY: f"{handle.topic}+{handle.unique_key}",
        PropertyName.UNIQ_KEY: handle.unique_key,
        TimerProperty.DELIVER_MS: handle.time,
        "BORN_TIMESTAMP": str(call.now_ms),
    }
    if call.header.producer_group:
        properties[PropertyName.PRODUCER_GROUP] = call.header.producer_group
    try:
        encoded = format_properties(properties)
    except InvalidArgument as error:
        raise Rejected(ResponseCode.ILLEGAL_OPERATION, f"recall failed: {error}") from None
    return Draft(handle.topic, 0, _BODY, encoded, 0, 0, call.now_ms, host_of(call.connection.remote))
