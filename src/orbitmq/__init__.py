"""RocketMQ for Python people: NameServer, broker, clients and a PySpark connector, wire-compatible with Java's.

    from orbitmq import Message, Producer

    async with Producer("orders-service", name_servers=["127.0.0.1:9876"]) as producer:
        sent = await producer.send(Message("orders", b"{...}", keys=["42"], tag="new"))

`orbitmq.blocking` has the same classes for code without an event loop. Names are loaded when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orbitmq.client.consume.batch import Batch
    from orbitmq.client.producer import Producer
    from orbitmq.client.pull_consumer import PullConsumer
    from orbitmq.client.push_consumer import PushConsumer
    from orbitmq.client.send.result import SendResult, SendStatus
    from orbitmq.client.simple_consumer import SimpleConsumer
    from orbitmq.client.transaction_producer import TransactionProducer, TransactionResult
    from orbitmq.client.transactions.decision import Decision
    from orbitmq.client.transactions.transaction import Transaction
    from orbitmq.errors import (
        ClientError,
        ConnectionFailed,
        InvalidArgument,
        NoNameServer,
        OrbitError,
        RemoteRefused,
        RequestTimeout,
        RouteNotFound,
        SendFailed,
    )
    from orbitmq.model.group import ConsumeFrom, MessageModel
    from orbitmq.model.message import Message, StoredMessage
    from orbitmq.model.route import MessageQueue
    from orbitmq.wire.signature import Credentials

__version__ = "0.1.0"

_HOMES = {
    "Batch": "orbitmq.client.consume.batch",
    "ClientError": "orbitmq.errors",
    "ConnectionFailed": "orbitmq.errors",
    "ConsumeFrom": "orbitmq.model.group",
    "Credentials": "orbitmq.wire.signature",
    "Decision": "orbitmq.client.transactions.decision",
    "InvalidArgument": "orbitmq.errors",
    "Message": "orbitmq.model.message",
    "MessageModel": "orbitmq.model.group",
    "MessageQueue": "orbitmq.model.route",
    "NoNameServer": "orbitmq.errors",
    "OrbitError": "orbitmq.errors",
    "Producer": "orbitmq.client.producer",
    "PullConsumer": "orbitmq.client.pull_consumer",
    "PushConsumer": "orbitmq.client.push_consumer",
    "RemoteRefused": "orbitmq.errors",
    "RequestTimeout": "orbitmq.errors",
    "RouteNotFound": "orbitmq.errors",
    "SendFailed": "orbitmq.errors",
    "SendResult": "orbitmq.client.send.result",
    "SendStatus": "orbitmq.client.send.result",
    "SimpleConsumer": "orbitmq.client.simple_consumer",
    "StoredMessage": "orbitmq.model.message",
    "Transaction": "orbitmq.client.transactions.transaction",
    "TransactionProducer": "orbitmq.client.transaction_producer",
    "TransactionResult": "orbitmq.client.transaction_producer",
}

__all__ = [
    "Batch",
    "ClientError",
    "ConnectionFailed",
    "ConsumeFrom",
    "Credentials",
    "Decision",
    "InvalidArgument",
    "Message",
    "MessageModel",
    "MessageQueue",
    "NoNameServer",
    "OrbitError",
    "Producer",
    "PullConsumer",
    "PushConsumer",
    "RemoteRefused",
    "RequestTimeout",
    "RouteNotFound",
    "SendFailed",
    "SendResult",
    "SendStatus",
    "SimpleConsumer",
    "StoredMessage",
    "Transaction",
    "TransactionProducer",
    "TransactionResult",
]


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used: `import orbitmq` alone costs next to nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(_HOMES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
