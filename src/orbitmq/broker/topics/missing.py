"""Topics that messages wait for and that are gone: they are made again, or the messages wait in their queues."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from orbitmq.broker.topics.registry import TopicRegistry
from orbitmq.model.message import PropertyName
from orbitmq.model.topic import is_name

log = logging.getLogger(__name__)

_DIGITS_MAX = 9


class MissingTopics:
    """Makes topics again that delayed messages come for.

    Args:
        topics: the broker's.
    """

    def __init__(self, topics: TopicRegistry) -> None:
        self._topics = topics
        self._held: set[str] = set()

    def destination(self, properties: dict[str, str], wall_ms: int) -> tuple[str, int] | None:
        """Return the topic and the queue that a message goes to, by what it carries; None where it names none.

        Raises:
            Rejected: the disk refuses a topic that has to be made again.
        """
        destination = destination_of(properties)
        if destination is None:
            return None
        return self.readable_queue(*destination, wall_ms)

    def readable_queue(self, topic: str, queue_id: int, wall_ms: int) -> tuple[str, int]:
        """Return where a message goes that was accepted for a queue; its topic is made again if it is gone. Raises as `destination`."""
        if self._topics.get(topic) is None:
            self._restore(topic, queue_id, wall_ms)
        return self._topics.readable_queue(topic, queue_id)

    def _restore(self, topic: str, queue_id: int, wall_ms: int) -> None:
        """Make a missing topic again. Where that is not allowed its messages wait in its queues, as in Java."""
        if self._topics.restore(topic, queue_id + 1, wall_ms) is not None:
            log.warning("made the topic %s again: a delayed message came for it", topic)
        elif topic not in self._held:
            self._held.add(topic)
            log.warning("the topic %s is missing: delayed messages for it can be read once it is made again", topic)


def destination_of(properties: Mapping[str, str]) -> tuple[str, int] | None:
    """Return the topic and the queue that a message names as its own, None where it names none."""
    topic = properties.get(PropertyName.REAL_TOPIC, "")
    queue_id = properties.get(PropertyName.REAL_QUEUE_ID, "")
    if not queue_id.isdecimal() or len(queue_id) > _DIGITS_MAX or not is_name(topic):
        return None
    return topic, int(queue_id)
