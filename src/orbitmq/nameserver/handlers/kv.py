"""Handlers of the key-value store."""

from __future__ import annotations

from typing import Literal

from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected
from orbitmq.nameserver.persistence.group_commit import answer_when_saved
from orbitmq.nameserver.persistence.kv_config import KvConfig
from orbitmq.net.dispatch.handlers import LATER, Call, Handlers, Later, Reply
from orbitmq.wire.bodies.document import encode_kv_table
from orbitmq.wire.headers import DeleteKvConfig, GetKvConfig, GetKvConfigResponse, GetKvListByNamespace, PutKvConfig

handlers: Handlers[KvConfig] = Handlers()


@handlers.on(PutKvConfig)
def put_kv_config(kv: KvConfig, call: Call[PutKvConfig]) -> Literal[Later.LATER]:
    """Set a value; none at all reads back as not there, as in Java. Answered when it is on disk."""
    header = call.header
    if header.namespace is None or header.key is None:
        raise Rejected(ResponseCode.SYSTEM_ERROR, "namespace or key is null")
    if header.value is None:
        kv.delete(header.namespace, header.key, answer_when_saved(call))
    else:
        kv.put(header.namespace, header.key, header.value, answer_when_saved(call))
    return LATER


@handlers.on(GetKvConfig)
def get_kv_config(kv: KvConfig, call: Call[GetKvConfig]) -> Reply:
    """Read a value."""
    header = call.header
    value = kv.get(header.namespace, header.key)
    if value is None:
        raise Rejected(ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {header.namespace} Key: {header.key}")
    return Reply(header=GetKvConfigResponse(value=value))


@handlers.on(DeleteKvConfig)
def delete_kv_config(kv: KvConfig, call: Call[DeleteKvConfig]) -> Literal[Later.LATER]:
    """Forget a value, whether it is there or not. Answered when it is gone from disk."""
    kv.delete(call.header.namespace, call.header.key, answer_when_saved(call))
    return LATER


@handlers.on(GetKvListByNamespace)
def get_kv_list(kv: KvConfig, call: Call[GetKvListByNamespace]) -> Reply:
    """List all values of a namespace."""
    table = kv.namespace(call.header.namespace)
    if table is None:
        raise Rejected(ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {call.header.namespace}")
    return Reply(body=encode_kv_table(table))
