"""Replies to requests (324, 325): each goes to the client that asked, and into the reply topic.

The answer says whether the client has the reply. That the reply is stored as well is for later queries: a disk
that refuses it does not make a reply fail that has arrived.

Source: Java ReplyMessageProcessor.
"""

from __future__ import annotations

import logging
from functools import partial

from orbitmq.broker.handlers.send import draft_of, make_topic, stored_form
from orbitmq.broker.sending.tables import SendTables, host_of
from orbitmq.broker.service import BrokerService
from orbitmq.codes import ResponseCode
from orbitmq.errors import InvalidArgument, OrbitError, Rejected
from orbitmq.model.message import Host, PropertyName, SysFlag
from orbitmq.model.topic import HALF_TOPIC, TIMER_TOPIC
from orbitmq.net.dispatch.handlers import LATER, Call, Handlers, Later, Reply
from orbitmq.store import AppendResult, Draft
from orbitmq.wire.headers import PushReply, SendReply, SendReplyV2
from orbitmq.wire.messages.message_id import offset_message_id
from orbitmq.wire.messages.properties import format_properties, parse_properties

log = logging.getLogger(__name__)


handlers: Handlers[BrokerService] = Handlers()

ReplyCall = Call[SendReply] | Call[SendReplyV2]

NO_CLIENT_REMARK = f"reply message properties[{PropertyName.REPLY_TO_CLIENT}] is null"


@handlers.on(SendReply)
def send_reply(broker: BrokerService, call: Call[SendReply]) -> Reply | Later:
    """Push and store the reply of an older client."""
    return _reply(broker, call)


@handlers.on(SendReplyV2)
def send_reply_v2(broker: BrokerService, call: Call[SendReplyV2]) -> Reply | Later:
    """Push and store a reply."""
    return _reply(broker, call)


def _trace_properties(broker: BrokerService) -> dict[str, str]:
    """Return what Java adds to the properties of a reply, and to the answer that its sender gets."""
    config = broker.config
    return {PropertyName.MSG_REGION: config.region_id, PropertyName.TRACE_ON: str(config.trace_on).lower()}


def _reply(broker: BrokerService, call: ReplyCall) -> Later:
    """Push a reply, and go on when the client has answered. What cannot be stored is refused before that."""
    if broker.sends.sending.queue_resolver.is_missing(call.header.topic):
        return make_topic(broker.sends.sending, call, partial(_reply, broker, call))
    draft = _draft(broker, call)
    properties = parse_properties(call.header.properties or "")
    client_id = properties.get(PropertyName.REPLY_TO_CLIENT)

    def pushed(remark: str | None) -> None:
        _store(broker, call, draft, remark)

    if client_id is None:
        pushed(NO_CLIENT_REMARK)
    else:
        properties |= _trace_properties(broker)
        properties[PropertyName.PUSH_REPLY_TIME] = str(call.now_ms)
        header = _push_header(call, broker.sends.sending.answers.host, properties)
        broker.sends.reply_pushes.push(client_id, header, call.command.body, pushed)
    return LATER


def _store(broker: BrokerService, call: ReplyCall, draft: Draft, remark: str | None) -> None:
    """Keep a reply that was pushed, or could not be; answer when it is as safe as the flush mode promises."""
    result = _append(broker.sends.sending, draft) if broker.config.store_reply_message_enable else None

    def synced(is_durable: bool | None) -> None:
        call.answer(_answer(broker, draft, remark, result if is_durable else None))

    if result is None or broker.sends.sending.store.wait_durable(result.end, synced):
        synced(True)


def _append(sending: SendTables, draft: Draft) -> AppendResult | None:
    try:
        result = sending.store.append(draft)
    except OrbitError as error:
        log.warning("a reply is not stored: %s", error)
        return None
    sending.delays.wake()
    if draft.topic == TIMER_TOPIC:
        sending.timers.wake()
    sending.stats.put(draft.topic, 1, result.size)
    return result


def _answer(broker: BrokerService, draft: Draft, remark: str | None, result: AppendResult | None) -> Reply:
    answers = broker.sends.sending.answers
    if result is not None:
        message_id = offset_message_id(answers.host, result.physical_offset)
        header = answers.header(message_id, draft.queue_id, result.queue_offset)
    elif remark is None:
        header = answers.header("0", draft.queue_id, 0)  # as Java: its client wants these fields in every success
    else:
        return Reply(ResponseCode.SYSTEM_ERROR, remark, ext_fields=_trace_properties(broker))
    return Reply(ResponseCode.SUCCESS if remark is None else ResponseCode.SYSTEM_ERROR, remark, header)


def _draft(broker: BrokerService, call: ReplyCall) -> Draft:
    """Return a reply as it is stored.

    Raises:
        Rejected: the codes of a send: 13, 16, 17 or 29.
    """
    header, sending = call.header, broker.sends.sending
    queue_resolver = sending.queue_resolver
    config = queue_resolver.open_topic(header.topic) or queue_resolver.resolve(header, call.now_ms)
    if header.sys_flag & SysFlag.FOR_THE_BROKER:
        raise Rejected(ResponseCode.MESSAGE_ILLEGAL, "a reply is not part of a transaction, and no batch")
    stored = stored_form(sending, draft_of(sending, call, config))
    if stored.topic == HALF_TOPIC:
        raise Rejected(ResponseCode.MESSAGE_ILLEGAL, "a reply cannot be a part of a transaction")
    return stored


def _push_header(call: ReplyCall, host: Host, properties: dict[str, str]) -> PushReply:
    header, born = call.header, host_of(call.connection.remote)
    try:
        encoded = format_properties(properties).decode()
    except InvalidArgument as error:
        raise Rejected(ResponseCode.MESSAGE_ILLEGAL, str(error)) from None
    return PushReply(
        producer_group=header.producer_group,
        topic=header.topic,
        default_topic=header.default_topic,
        default_topic_queue_nums=header.default_topic_queue_nums,
        queue_id=header.queue_id,
        sys_flag=header.sys_flag,
        born_at_ms=header.born_at_ms,
        flag=header.flag,
        properties=encoded,
        reconsume_times=header.reconsume_times,
        unit_mode=header.unit_mode or False,
        born_host=f"{born.ip}:{born.port}",
        store_host=f"{host.ip}:{host.port}",
        stored_at_ms=call.now_ms,
    )
