"""Topic names: those that RocketMQ keeps for itself are told from users' by name alone."""

import pytest

from orbitmq.model.topic import is_reserved_topic


@pytest.mark.parametrize(
    "topic",
    [
        "TBW102",
        "SCHEDULE_TOPIC_XXXX",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
        "BenchmarkTest",
        "RMQ_SYS_TRACE_TOPIC",
        "rmq_sys_wheel_timer",
        "%SYS%anything",
    ],
)
def test_rocketmqs_own_topics_are_reserved(topic):
    assert is_reserved_topic(topic)


@pytest.mark.parametrize("topic", ["orders", "TBW1024", "my-rmq_sys_topic", "%RETRY%billing", "%DLQ%billing", "RMQ"])
def test_users_topics_are_not(topic):
    assert not is_reserved_topic(topic)
