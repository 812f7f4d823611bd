"""Topics that are one light queue each: there whenever somebody asks for them, and in no table. Pure.

Source: Java LmqTopicConfigManager.
"""

from __future__ import annotations

from collections.abc import Callable

from orbitmq.broker.topics.table import plain_topic
from orbitmq.model.topic import Perm, TopicConfig
from orbitmq.store.lmq import is_light

Get = Callable[[str], TopicConfig | None]


def with_light_topics(get: Get) -> Get:
    """Return what finds light topics beside those that `get` finds.

    Nobody sends to them: messages of other topics name them. (Java takes sends, and gives numbers twice then.)
    """

    def find(topic: str) -> TopicConfig | None:
        found = get(topic)
        if found is None and is_light(topic):
            return plain_topic(topic, 1, int(Perm.READ))
        return found

    return find
