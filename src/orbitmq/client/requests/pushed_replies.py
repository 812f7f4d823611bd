"""Replies as brokers push them to the client that asked (326).

Source: Java ClientRemotingProcessor.receiveReplyMessage.
"""

from __future__ import annotations

import logging

from orbitmq.address import parse_address
from orbitmq.client.requests.pending import PendingRequests
from orbitmq.codes import ResponseCode
from orbitmq.errors import ClientError, InvalidArgument, Rejected
from orbitmq.model.message import Host, PropertyName, StoredMessage
from orbitmq.net.dispatch.handlers import Call, Handlers, Reply
from orbitmq.wire.headers.send import PushReply
from orbitmq.wire.messages.compression import decompress
from orbitmq.wire.messages.properties import parse_properties

log = logging.getLogger(__name__)

handlers: Handlers[PendingRequests] = Handlers()

FAIL_REMARK = "process reply message fail"


@handlers.on(PushReply)
def take_reply(pending: PendingRequests, call: Call[PushReply]) -> Reply:
    """Hand a reply to the request that it names. One that comes too late is confirmed, too, as by Java's client."""
    properties = parse_properties(call.header.properties or "")
    correlation_id = properties.get(PropertyName.CORRELATION_ID)
    if correlation_id is None:
        raise Rejected(ResponseCode.SYSTEM_ERROR, f"{FAIL_REMARK}: it names no request")
    properties[PropertyName.ARRIVE_TIME] = str(call.now_ms)
    try:
        reply = _message(call, properties)
    except InvalidArgument as error:
        pending.resolve(correlation_id, ClientError(f"the reply to the request cannot be read: {error}"))
        raise Rejected(ResponseCode.SYSTEM_ERROR, f"{FAIL_REMARK}: {error}") from None
    if not pending.resolve(correlation_id, reply):
        log.debug("a reply from %s came to no request that waits, %s", call.header.born_host, correlation_id)
    return Reply()


def _message(call: Call[PushReply], properties: dict[str, str]) -> StoredMessage:
    """Return the reply as a consumer would get it; it has no place in a log."""
    header = call.header
    return StoredMessage(
        topic=header.topic,
        body=decompress(call.command.body, header.sys_flag),
        properties=properties,
        queue_id=header.queue_id,
        queue_offset=0,
        physical_offset=0,
        store_size=0,
        flag=header.flag,
        sys_flag=header.sys_flag,
        born_at_ms=header.born_at_ms,
        born_host=_host(header.born_host),
        stored_at_ms=header.stored_at_ms,
        store_host=_host(header.store_host),
        reconsume_times=header.reconsume_times or 0,
    )


def _host(text: str) -> Host:
    return Host(*parse_address(text))
