"""A topic pattern of 2,000 queues with a few rows in each: what streams of Spark need for many queues."""

from __future__ import annotations

from benchmarks.probe import ask_topic
from benchmarks.servers import Server
from orbitmq import Message
from orbitmq.blocking import Producer

TOPICS, QUEUES_EACH = 250, 8
PREFIX = "bench-queues-"
PATTERN = f"{PREFIX}.*"
ROWS_EACH, BATCH_ROWS_EACH = 15, 3  # of a queue: in all, and in a micro-batch
ROWS = TOPICS * QUEUES_EACH * ROWS_EACH
BATCH_ROWS = TOPICS * QUEUES_EACH * BATCH_ROWS_EACH
BODY = bytes(128)


def fill_queues(ours: Server) -> None:
    """Create the topics and put as many messages into each queue."""
    topics = [f"{PREFIX}{number}" for number in range(TOPICS)]
    for topic in topics:
        ask_topic(ours.port, topic, queues=QUEUES_EACH)
    with Producer("bench-queues", f"127.0.0.1:{ours.ports['nameserver']}") as producer:
        for topic in topics:
            for queue in producer.queues(topic):
                producer.send_batch([Message(topic, BODY)] * ROWS_EACH, queue=queue)
