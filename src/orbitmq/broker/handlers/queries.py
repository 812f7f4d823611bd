"""Queries for single messages: by the physical offset of a record (33)."""

from __future__ import annotations

from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected
from orbitmq.net.dispatch.handlers import Call, Handlers, Reply
from orbitmq.store import Store
from orbitmq.wire.headers import ViewMessage

handlers: Handlers[Store] = Handlers()


@handlers.on(ViewMessage)
def view_message(store: Store, call: Call[ViewMessage]) -> Reply:
    """Answer with the record at a physical offset."""
    record = store.record_at(call.header.physical_offset)
    if record is None:
        raise Rejected(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {call.header.physical_offset}")
    return Reply(body=record)
