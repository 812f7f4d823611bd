"""A group's page: the topics in which it may be reset."""

from __future__ import annotations

from orbitmq.dashboard.groups import reset_topics


def test_a_reset_begins_with_the_subscribed_topic_and_never_with_retries() -> None:
    read = ["%RETRY%billing", "%DLQ%billing", "abandoned"]
    found = reset_topics({"orders": "*", "%RETRY%billing": "*"}, read)
    assert found == ["orders", "abandoned", "%RETRY%billing", "%DLQ%billing"]
