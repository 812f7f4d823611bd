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
    from orbitmq.client.blocking.consumers import BlockingBatch as Batch
    from orbitmq.client.blocking.consumers import BlockingPullConsumer as PullConsumer
    from orbitmq.client.blocking.consumers import BlockingPushConsumer as PushConsumer
    from orbitmq.client.blocking.consumers import BlockingSimpleConsumer as SimpleConsumer
    from orbitmq.client.blocking.producers import BlockingProducer as Producer
    from orbitmq.client.blocking.producers import BlockingTransactionProducer as TransactionProducer

_HOMES = {
    "Batch": "orbitmq.client.blocking.consumers",
    "Producer": "orbitmq.client.blocking.producers",
    "PullConsumer": "orbitmq.client.blocking.consumers",
    "PushConsumer": "orbitmq.client.blocking.consumers",
    "SimpleConsumer": "orbitmq.client.blocking.consumers",
    "TransactionProducer": "orbitmq.client.blocking.producers",
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
