"""The key-value store."""

from __future__ import annotations

from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected
from orbitmq.nameserver.service import ORDER_TOPIC_NAMESPACE, Registry
from orbitmq.net.dispatch.handlers import Call, Handlers, Reply
from orbitmq.wire.bodies.kv import encode_kv_table
from orbitmq.wire.headers import DeleteKvConfig, GetKvConfig, GetKvConfigResponse, GetKvListByNamespace, PutKvConfig

handlers: Handlers[Registry] = Handlers()


@handlers.on(PutKvConfig)
def put_kv_config(registry: Registry, call: Call[PutKvConfig]) -> Reply:
    """Set a value; none at all reads back as not there, as in Java."""
    header = call.header
    if header.namespace is None or header.key is None:
        raise Rejected(ResponseCode.SYSTEM_ERROR, "namespace or key is null")
    if header.value is None:
        registry.kv.delete(header.namespace, header.key)
    else:
        registry.kv.put(header.namespace, header.key, header.value)
    _forget_order(registry, header.namespace, header.key)
    return Reply()


@handlers.on(GetKvConfig)
def get_kv_config(registry: Registry, call: Call[GetKvConfig]) -> Reply:
    """Read a value."""
    header = call.header
    value = registry.kv.get(header.namespace, header.key)
    if value is None:
        raise Rejected(ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {header.namespace} Key: {header.key}")
    return Reply(header=GetKvConfigResponse(value=value))


@handlers.on(DeleteKvConfig)
def delete_kv_config(registry: Registry, call: Call[DeleteKvConfig]) -> Reply:
    """Forget a value, whether it is there or not."""
    registry.kv.delete(call.header.namespace, call.header.key)
    _forget_order(registry, call.header.namespace, call.header.key)
    return Reply()


@handlers.on(GetKvListByNamespace)
def get_kv_list(registry: Registry, call: Call[GetKvListByNamespace]) -> Reply:
    """List all values of a namespace."""
    table = registry.kv.namespace(call.header.namespace)
    if table is None:
        raise Rejected(ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {call.header.namespace}")
    return Reply(body=encode_kv_table(table))


def _forget_order(registry: Registry, namespace: str, topic: str) -> None:
    if namespace == ORDER_TOPIC_NAMESPACE:
        registry.forget_answers(topic)
