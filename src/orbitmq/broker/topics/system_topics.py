"""The topics that a broker makes for itself, and those of them that no client may send to.

Source: Java TopicConfigManager (what it creates), TopicValidator (what is closed to clients).
"""

from __future__ import annotations

from orbitmq.broker.config import BrokerConfig
from orbitmq.broker.topics.table import plain_topic
from orbitmq.model.topic import (
    AUTO_CREATE_TOPIC,
    DELETIONS_TOPIC,
    GIVEN_UP_TOPIC,
    HALF_TOPIC,
    OP_TOPIC,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    Perm,
    TopicConfig,
    reply_topic,
)

CLOSED_TO_CLIENTS = frozenset(
    (
        SCHEDULE_TOPIC,
        HALF_TOPIC,
        OP_TOPIC,
        GIVEN_UP_TOPIC,
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
        TIMER_TOPIC,
    )
)
"""Topics that the broker writes itself; a client's send is refused (Java: NOT_ALLOWED_SEND_TOPIC_SET, which lacks the
timers': a message there without a time stops all of Java's timers)."""
_SYSTEM_TOPICS = CLOSED_TO_CLIENTS | {AUTO_CREATE_TOPIC, "BenchmarkTest", "RMQ_SYS_TRACE_TOPIC", "CHECKPOINT_TOPIC"}
_SCHEDULE_QUEUE_COUNT = 18


def is_system_topic(topic: str) -> bool:
    """Return True if `topic` is the broker's own and may not be made or deleted by a client."""
    return topic in _SYSTEM_TOPICS or topic.startswith("rmq_sys_")


def closed_topics(config: BrokerConfig) -> frozenset[str]:
    """Return the topics of a broker that clients cannot send to.

    POP's is one of them, in Java it is not: a message there acknowledges messages of others, or skips them. Java does not know that of
    deletions.
    """
    return CLOSED_TO_CLIENTS | {_revive_topic(config), DELETIONS_TOPIC}


def _revive_topic(config: BrokerConfig) -> str:
    return f"rmq_sys_REVIVE_LOG_{config.broker_cluster_name}"


def system_topic_names(config: BrokerConfig) -> list[str]:
    """Return the names that are the broker's own, whether there is a topic of the name or not."""
    return sorted(_SYSTEM_TOPICS.union(topic.topic for topic in system_topics(config)))


def system_topics(config: BrokerConfig) -> list[TopicConfig]:
    """Return the topics that a broker with these settings has from the start."""
    cluster, broker = config.broker_cluster_name, config.broker_name
    found = [
        plain_topic("SELF_TEST_TOPIC", 1),
        plain_topic("BenchmarkTest", 1024),
        plain_topic(cluster, 16, Perm.INHERIT | (Perm.READ_WRITE if config.cluster_topic_enable else 0)),
        plain_topic(broker, 1, Perm.INHERIT | (Perm.READ_WRITE if config.broker_topic_enable else 0)),
        plain_topic("OFFSET_MOVED_EVENT", 1),
        plain_topic(SCHEDULE_TOPIC, _SCHEDULE_QUEUE_COUNT),
        plain_topic(reply_topic(cluster), 1),
        plain_topic(_revive_topic(config), 8),
        plain_topic(f"rmq_sys_SYNC_BROKER_MEMBER_{broker}", 1, Perm.INHERIT),
        plain_topic(HALF_TOPIC, 1),
        plain_topic(OP_TOPIC, 1),
        plain_topic(TIMER_TOPIC, 1),
    ]
    if config.auto_create_topic_enable:
        found.append(plain_topic(AUTO_CREATE_TOPIC, config.default_topic_queue_nums, Perm.INHERIT | Perm.READ_WRITE))
    if config.trace_topic_enable:
        found.append(plain_topic(config.msg_trace_topic_name, 1))
    return found
