from __future__ import annotations

from orbitmq.broker.config import BrokerConfig
from orbitmq.broker.topics.system_topics import CLOSED_TO_CLIENTS, is_system_topic, system_topics
from orbitmq.model.topic import Perm, TopicConfig


def topics(**settings: object) -> dict[str, TopicConfig]:
    config = BrokerConfig(broker_name="a", **settings)  # type: ignore[arg-type]
    return {topic.topic: topic for topic in system_topics(config)}


def test_the_system_topics_are_those_of_a_java_broker() -> None:
    found = topics(trace_topic_enable=True)
    queue_counts = {name: (topic.read_queue_count, topic.write_queue_count) for name, topic in found.items()}
    assert queue_counts == {
        "SELF_TEST_TOPIC": (1, 1),
        "BenchmarkTest": (1024, 1024),
        "DefaultCluster": (16, 16),
        "a": (1, 1),
        "OFFSET_MOVED_EVENT": (1, 1),
        "SCHEDULE_TOPIC_XXXX": (18, 18),
        "DefaultCluster_REPLY_TOPIC": (1, 1),
        "rmq_sys_REVIVE_LOG_DefaultCluster": (8, 8),
        "rmq_sys_SYNC_BROKER_MEMBER_a": (1, 1),
        "RMQ_SYS_TRANS_HALF_TOPIC": (1, 1),
        "RMQ_SYS_TRANS_OP_HALF_TOPIC": (1, 1),
        "rmq_sys_wheel_timer": (1, 1),
        "TBW102": (8, 8),
        "RMQ_SYS_TRACE_TOPIC": (1, 1),
    }
    assert "TBW102" not in topics(auto_create_topic_enable=False)
    assert "RMQ_SYS_TRACE_TOPIC" not in topics()


def test_topics_named_after_cluster_and_broker_may_be_closed() -> None:
    assert topics()["DefaultCluster"].perm == topics()["a"].perm == Perm.INHERIT | Perm.READ_WRITE
    closed = topics(cluster_topic_enable=False, broker_topic_enable=False)
    assert closed["DefaultCluster"].perm == closed["a"].perm == Perm.INHERIT


def test_system_topics_are_told_by_their_names() -> None:
    assert is_system_topic("rmq_sys_REVIVE_LOG_c")
    assert is_system_topic("TBW102")
    assert all(map(is_system_topic, CLOSED_TO_CLIENTS))
    assert not is_system_topic("orders")
