"""The broker's topic table: its topics with their queue counts and permissions; and LMQ topics, which are in none. Pure.

State: every TopicConfig and the table's DataVersion. In: create, delete, and sends to topics that do not exist.
Out: configurations; `version` tells whether anything changed.

Source: Java TopicConfigManager, TopicValidator.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping

from orbitmq.broker.topics.attributes import apply_attribute_changes
from orbitmq.broker.versioned_table import VersionedTable
from orbitmq.codes import ResponseCode
from orbitmq.errors import InvalidArgument, Rejected
from orbitmq.model.topic import (
    AUTO_CREATE_TOPIC,
    DLQ_PREFIX,
    RETRY_PREFIX,
    DataVersion,
    Perm,
    TopicConfig,
    check_name,
)
from orbitmq.store.lmq import is_lmq

QUEUES_PER_TOPIC_MAX = 16_384
"""Ours: a topic with more queues is a mistake, and its table would not fit a frame."""
TOPICS_MAX = 200_000


class TopicTable(VersionedTable[TopicConfig]):
    """Every topic of this broker."""

    def __init__(
        self,
        topics: Iterable[TopicConfig] = (),
        version: DataVersion = DataVersion(),  # noqa: B008 - frozen
        *,
        auto_create_enable: bool = True,
        count_max: int = TOPICS_MAX,
    ) -> None:
        super().__init__({config.topic: config for config in topics}, version, count_max=count_max)
        self._auto_create_enable = auto_create_enable

    def add_missing(self, topics: Iterable[TopicConfig], now_ms: int) -> None:
        """Add the system topics that the loaded table lacks; what is there keeps its settings."""
        for config in topics:
            if config.topic not in self._values:
                self._put(config.topic, config, now_ms)

    def update(self, config: TopicConfig, now_ms: int, *, queue_count_min: int = 1) -> TopicConfig:
        """Create the topic, or change it.

        `config.attributes` are changes as the wire carries them: `+key` sets, `-key` removes.

        Args:
            queue_count_min: 0 for a static topic, of which this broker may have no queue.

        Raises:
            Rejected: 29, for a name, count or permission that no topic may have; 1, for such an attribute, or one topic too many.
        """
        self._check(config, queue_count_min)
        old = self._values.get(config.topic)
        attributes = apply_attribute_changes(None if old is None else old.attributes, config.attributes)
        return self._put(config.topic, dataclasses.replace(config, attributes=attributes), now_ms)

    def copy(self, config: TopicConfig, now_ms: int) -> TopicConfig:
        """Take a master's topic as it is, attributes and all.

        Raises:
            Rejected: as `update`.
        """
        self._check(config, 0)
        return self._put(config.topic, config, now_ms)

    def _check(self, config: TopicConfig, queue_count_min: int) -> None:
        _check(config, queue_count_min)
        if not self.has_room(config.topic):
            raise Rejected(ResponseCode.SYSTEM_ERROR, f"there are {self.count_max} topics, topicsMax allows no more")

    def allow(self, *, auto_create_enable: bool, count_max: int) -> None:
        """Change what may be made from now on."""
        self._auto_create_enable = auto_create_enable
        self.count_max = count_max

    def auto_create(self, topic: str, template: str, queue_count: int, now_ms: int) -> TopicConfig | None:
        """Create a topic that a send names, from a template topic that may be inherited.

        Args:
            template: the topic whose settings are taken, `TBW102` from most clients.
            queue_count: queues the client asks for; the template's count is the most it gets.

        Returns:
            The new configuration, or None when the template is unknown or not to be inherited.
        """
        source = self._values.get(template)
        if source is None or not source.perm & Perm.INHERIT:
            return None
        if template == AUTO_CREATE_TOPIC and not self._auto_create_enable:
            return None
        count = min(queue_count, source.write_queue_count)
        if count < 1 or not self.has_room(topic):
            return None
        perm = source.perm & ~Perm.INHERIT
        return self._put(topic, plain_topic(topic, count, perm, filter_type=source.topic_filter_type), now_ms)

    def create_retry_topic(self, topic: str, queue_count: int, now_ms: int) -> TopicConfig | None:
        """Create a group's `%RETRY%` (or `%DLQ%`) topic unless it is there."""
        if (found := self._values.get(topic)) is not None:
            return found
        if not self.has_room(topic):
            return None
        return self._put(topic, plain_topic(topic, queue_count), now_ms)

    def restore(self, topic: str, queue_count: int, now_ms: int) -> TopicConfig | None:
        """Create a topic again that messages in the log belong to.

        Args:
            queue_count: what these messages need; the template of automatic creation may give it more.

        Returns:
            None when no send could make it, either: it must be made by hand.
        """
        template = self._values.get(AUTO_CREATE_TOPIC)
        is_retry = topic.startswith((RETRY_PREFIX, DLQ_PREFIX))
        if queue_count > QUEUES_PER_TOPIC_MAX:
            return None
        if not is_retry and (template is None or not self._auto_create_enable):
            return None
        if not self.has_room(topic):
            return None
        count = queue_count if is_retry or template is None else max(queue_count, template.write_queue_count)
        return self._put(topic, plain_topic(topic, count), now_ms)

    def masked(self, permission: int) -> Mapping[str, TopicConfig]:
        """Return the table as a registration carries it: no topic has more permission than the broker."""
        if permission & Perm.READ_WRITE == Perm.READ_WRITE:
            return self.all
        return {
            topic: dataclasses.replace(config, perm=config.perm & permission) for topic, config in self._values.items()
        }


def check_topic_name(topic: str) -> None:
    """Raise Rejected 29 unless `topic` is a legal name (the same alphabet at every entry)."""
    try:
        check_name("topic", topic)
    except InvalidArgument as error:
        raise Rejected(ResponseCode.INVALID_PARAMETER, str(error)) from None


def _check(config: TopicConfig, queue_count_min: int) -> None:
    check_topic_name(config.topic)
    for name, count in (("readQueueNums", config.read_queue_count), ("writeQueueNums", config.write_queue_count)):
        if not queue_count_min <= count <= QUEUES_PER_TOPIC_MAX:
            expected = f"expected {queue_count_min} to {QUEUES_PER_TOPIC_MAX}"
            raise Rejected(ResponseCode.INVALID_PARAMETER, f"{name}: {count} is not allowed, {expected}")
    if not 0 <= config.perm <= 15:
        raise Rejected(ResponseCode.INVALID_PARAMETER, f"perm: {config.perm} is not allowed, expected 0 to 15")
    if config.topic_filter_type not in ("SINGLE_TAG", "MULTI_TAG"):
        raise Rejected(
            ResponseCode.INVALID_PARAMETER,
            f"topicFilterType: {config.topic_filter_type!r:.40} is not allowed, expected SINGLE_TAG or MULTI_TAG",
        )


def plain_topic(
    topic: str, queue_count: int, perm: int = Perm.READ_WRITE, *, filter_type: str = "SINGLE_TAG"
) -> TopicConfig:
    """Return the configuration of a topic with as many queues to read as to write."""
    return TopicConfig(
        topic=topic,
        read_queue_count=queue_count,
        write_queue_count=queue_count,
        perm=int(perm),
        topic_filter_type=filter_type,
    )


Get = Callable[[str], TopicConfig | None]


def with_lmq_topics(get: Get) -> Get:
    """Return what finds LMQ topics besides those that `get` finds.

    They take no sends: messages of other topics name them. (Java takes sends, and gives numbers twice then.)
    """

    def find(topic: str) -> TopicConfig | None:
        found = get(topic)
        if found is None and is_lmq(topic):
            return plain_topic(topic, 1, int(Perm.READ))
        return found

    return find
