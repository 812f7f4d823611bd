"""Producer and consumers for code without an event loop: scripts and notebooks.

from orbitmq import Message
from orbitmq.blocking import Producer

with Producer("orders-service", name_servers=["127.0.0.1:9876"]) as producer:
    sent = producer.send(Message("orders", b"{...}"))
"""

from orbitmq.client.blocking.batch import BlockingBatch as Batch
from orbitmq.client.blocking.producer import BlockingProducer as Producer
from orbitmq.client.blocking.pull_consumer import BlockingPullConsumer as PullConsumer
from orbitmq.client.blocking.push_consumer import BlockingPushConsumer as PushConsumer
from orbitmq.client.blocking.simple_consumer import BlockingSimpleConsumer as SimpleConsumer
from orbitmq.client.blocking.transaction_producer import BlockingTransactionProducer as TransactionProducer

__all__ = ["Batch", "Producer", "PullConsumer", "PushConsumer", "SimpleConsumer", "TransactionProducer"]
