"""Producer, PushConsumer and PullConsumer for code without an event loop: scripts and notebooks.

from orbitmq import Message
from orbitmq.blocking import Producer

with Producer("orders-service", name_servers=["127.0.0.1:9876"]) as producer:
    sent = producer.send(Message("orders", b"{...}"))
"""

from orbitmq.client.blocking import BlockingBatch as Batch
from orbitmq.client.blocking import BlockingProducer as Producer
from orbitmq.client.blocking import BlockingPullConsumer as PullConsumer
from orbitmq.client.blocking import BlockingPushConsumer as PushConsumer

__all__ = ["Batch", "Producer", "PullConsumer", "PushConsumer"]
