"""Producer and consumers for code without an event loop: scripts and notebooks.

    from orbitmq import Message
    from orbitmq.blocking import Producer

    with Producer("orders-service", name_servers=["127.0.0.1:9876"]) as producer:
        sent = producer.send(Message("orders", b"{...}"))

Names are loaded when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orbitmq.client.blocking.batch import BlockingBatch as Batch
    from orbitmq.client.blocking.producer import BlockingProducer as Producer
    from orbitmq.client.blocking.pull_consumer import BlockingPullConsumer as PullConsumer
    from orbitmq.client.blocking.push_consumer import BlockingPushConsumer as PushConsumer
    from orbitmq.client.blocking.simple_consumer import BlockingSimpleConsumer as SimpleConsumer
    from orbitmq.client.blocking.transaction_producer import BlockingTransactionProducer as TransactionProducer

_HOMES = {
    "Batch": "orbitmq.client.blocking.batch",
    "Producer": "orbitmq.client.blocking.producer",
    "PullConsumer": "orbitmq.client.blocking.pull_consumer",
    "PushConsumer": "orbitmq.client.blocking.push_consumer",
    "SimpleConsumer": "orbitmq.client.blocking.simple_consumer",
    "TransactionProducer": "orbitmq.client.blocking.transaction_producer",
}

__all__ = ["Batch", "Producer", "PullConsumer", "PushConsumer", "SimpleConsumer", "TransactionProducer"]


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used: `import orbitmq.blocking` alone costs next to nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(_HOMES[name]), f"Blocking{name}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
