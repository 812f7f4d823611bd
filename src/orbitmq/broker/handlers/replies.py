"""Replies to requests (324, 325): each goes to the client that asked, and into the reply topic.

The answer says whether the client has the reply. That the reply is stored as well is for later queries: a disk
that refuses it does not make a reply fail that has arrived.

Source: Java ReplyMessageProcessor.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial

from orbitmq.broker.handlers.send import draft_of, make_topic, stored_form
from orbitmq.broker.sending.reply_pushes import ReplyPushes
from orbitmq.broker.sending.tables import SendTables, host_of
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyTables:
    """What replies need.

    Args:
        is_storing: keep replies in the reply topic.
        region_id: for trace consoles, as `trace_on`: both travel with every reply.
    """

    sending: SendTables
    pushes: ReplyPushes
    is_storing: bool
    region_id: str
    trace_on: bool

    @property
    def trace_properties(self) -> dict[str, str]:
        """What Java adds to the properties of a reply, and to the answer that its sender gets."""
        return {PropertyName.MSG_REGION: self.region_id, PropertyName.TRACE_ON: str(self.trace_on).lower()}


handlers: Handlers[ReplyTables] = Handlers()

ReplyCall = Call[SendReply] | Call[SendReplyV2]

NO_CLIENT_REMARK = f"reply message properties[{PropertyName.REPLY_TO_CLIENT}] is null"


@handlers.on(SendReply)
def send_reply(tables: ReplyTables, call: Call[SendReply]) -> Reply | Later:
    """Push and store the reply of an older client."""
    return _reply(tables, call)


@handlers.on(SendReplyV2)
def send_reply_v2(tables: ReplyTables, call: Call[SendReplyV2]) -> Reply | Later:
    """Push and store a reply."""
    return _reply(tables, call)


def _reply(tables: ReplyTables, call: ReplyCall) -> Later:
    """Push a reply, and go on when the client has answered. What cannot be stored is refused before that."""
    if tables.sending.queue_resolver.is_missing(call.header.topic):
        return make_topic(tables.sending, call, partial(_reply, tables, call))
    draft = _draft(tables, call)
    properties = parse_properties(call.header.properties or "")
    client_id = properties.get(PropertyName.REPLY_TO_CLIENT)

    def pushed(remark: str | None) -> None:
        _store(tables, call, draft, remark)

    if client_id is None:
        pushed(NO_CLIENT_REMARK)
    else:
        properties |= tables.trace_properties
        properties[PropertyName.PUSH_REPLY_TIME] = str(call.now_ms)
        header = _push_header(call, tables.sending.answers.host, properties)
        tables.pushes.push(client_id, header, call.command.body, pushed)
    return LATER


def _store(tables: ReplyTables, call: ReplyCall, draft: Draft, remark: str | None) -> None:
    """Keep a reply that was pushed, or could not be; answer when it is as safe as the flush mode promises."""
    result = _append(tables.sending, draft) if tables.is_storing else None

    def synced(is_durable: bool | None) -> None:
        call.answer(_answer(tables, draft, remark, result if is_durable else None))

    if result is None or tables.sending.store.wait_durable(result.end, synced):
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


def _answer(tables: ReplyTables, draft: Draft, remark: str | None, result: AppendResult | None) -> Reply:
    answers = tables.sending.answers
    if result is not None:
        message_id = offset_message_id(answers.host, result.physical_offset)
        header = answers.header(message_id, draft.queue_id, result.queue_offset)
    elif remark is None:
        header = answers.header("0", draft.queue_id, 0)  # as Java: its client wants these fields in every success
    else:
        return Reply(ResponseCode.SYSTEM_ERROR, remark, ext_fields=tables.trace_properties)
    return Reply(ResponseCode.SUCCESS if remark is None else ResponseCode.SYSTEM_ERROR, remark, header)


def _draft(tables: ReplyTables, call: ReplyCall) -> Draft:
    """Return a reply as it is stored.

    Raises:
        Rejected: the codes of a send: 13, 16, 17 or 29.
    """
    header, sending = call.header, tables.sending
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
