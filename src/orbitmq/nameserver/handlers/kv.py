"""Handlers of the key-value store."""

from __future__ import annotations

from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected
from orbitmq.nameserver.kv_config import KvConfig
from orbitmq.net.dispatch.handlers import Call, Handlers, Reply
from orbitmq.wire.bodies.kv import encode_kv_table
from orbitmq.wire.headers import DeleteKvConfig, GetKvConfig, GetKvConfigResponse, GetKvListByNamespace, PutKvConfig

handlers: Handlers[KvConfig] = Handlers()


@handlers.on(PutKvConfig)
def put_kv_config(kv: KvConfig, call: Call[PutKvConfig]) -> Reply:
    """Set a value; none at all reads back as not there, as in Java."""
    header = call.header
    if header.namespace is None or header.key is None:
        raise Rejected(ResponseCode.SYSTEM_ERROR, "namespace or key is null")
    if header.value is None:
        kv.delete(header.namespace, header.key)
    else:
        kv.put(header.namespace, header.key, header.value)
    return Reply()


@handlers.on(GetKvConfig)
def get_kv_config(kv: KvConfig, call: Call[GetKvConfig]) -> Reply:
    """Read a value."""
    header = call.header
    value = kv.get(header.namespace, header.key)
    if value is None:
        raise Rejected(ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {header.namespace} Key: {header.key}")
    return Reply(header=GetKvConfigResponse(value=value))


@handlers.on(DeleteKvConfig)
def delete_kv_config(kv: KvConfig, call: Call[DeleteKvConfig]) -> Reply:
    """Forget a value, whether it is there or not."""
    kv.delete(call.header.namespace, call.header.key)
    return Reply()


@handlers.on(GetKvListByNamespace)
def get_kv_list(kv: KvConfig, call: Call[GetKvListByNamespace]) -> Reply:
    """List all values of a namespace."""
    table = kv.namespace(call.header.namespace)
    if table is None:
        raise Rejected(ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {call.header.namespace}")
    return Reply(body=encode_kv_table(table))
