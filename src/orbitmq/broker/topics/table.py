"""The broker's topic table: its topics with their queue counts and permissions. Pure: no clock, no file.

State: every TopicConfig and the table's DataVersion. In: create, delete, and sends to topics that nobody has created.
Out: configurations; `version` tells whether anything changed.

Source: Java TopicConfigManager, TopicValidator.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from orbitmq.broker.topics.attributes import apply_attribute_changes
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

QUEUES_PER_TOPIC_MAX = 16_384
"""Ours: a topic with more queues is a mistake, and its table would not fit a frame."""
TOPICS_MAX = 200_000
"""Ours: automatic creation must not fill the memory."""


class TopicTable:
    """Every topic of this broker."""

    def __init__(
        self,
        topics: Iterable[TopicConfig] = (),
        version: DataVersion = DataVersion(),  # noqa: B008 - frozen
        *,
        auto_create_enable: bool = True,
    ) -> None:
        self._topics = {config.topic: config for config in topics}
        self._auto_create_enable = auto_create_enable
        self._replaced: dict[str, TopicConfig | None] = {}
        self.version = self._kept_version = version
        self.get = self._topics.get
        """Return a topic's configuration or None; bound once, since every send and pull asks."""

    @property
    def all(self) -> Mapping[str, TopicConfig]:
        """A read-only view of the whole table."""
        return MappingProxyType(self._topics)

    def add_missing(self, topics: Iterable[TopicConfig], now_ms: int) -> None:
        """Add the system topics that the loaded table lacks; what is there keeps its settings."""
        for config in topics:
            if config.topic not in self._topics:
                self._put(config, now_ms)

    def update(self, config: TopicConfig, now_ms: int) -> TopicConfig:
        """Create the topic, or change it.

        `config.attributes` are changes as the wire carries them: `+key` sets, `-key` removes.

        Raises:
            Rejected: 29, for a name, count or permission that no topic may have.
        """
        _check(config)
        old = self._topics.get(config.topic)
        attributes = apply_attribute_changes({} if old is None else old.attributes, config.attributes)
        return self._put(dataclasses.replace(config, attributes=attributes), now_ms)

    def delete(self, topic: str, now_ms: int) -> bool:
        """Forget a topic; False when there was none."""
        old = self._topics.pop(topic, None)
        if old is None:
            return False
        self._replaced.setdefault(topic, old)
        self.version = self.version.next(now_ms)
        return True

    def keep(self) -> None:
        """Let all changes count for good: they are on the disk."""
        self._replaced.clear()
        self._kept_version = self.version

    def revert(self) -> None:
        """Take back what was changed since the last `keep`: the disk refused it."""
        for topic, old in self._replaced.items():
            if old is None:
                self._topics.pop(topic, None)
            else:
                self._topics[topic] = old
        self._replaced.clear()
        self.version = self._kept_version

    def auto_create(self, topic: str, template: str, queue_count: int, now_ms: int) -> TopicConfig | None:
        """Create a topic that somebody sends to, from a template topic that may be inherited.

        Args:
            template: the topic whose settings are taken, `TBW102` from most clients.
            queue_count: queues the client asks for; the template's count is the most it gets.

        Returns:
            The new configuration, or None when the template is unknown or not to be inherited.
        """
        source = self._topics.get(template)
        if source is None or not source.perm & Perm.INHERIT or len(self._topics) >= TOPICS_MAX:
            return None
        if template == AUTO_CREATE_TOPIC and not self._auto_create_enable:
            return None
        count = min(queue_count, source.write_queue_count)
        if count < 1:
            return None
        perm = source.perm & ~Perm.INHERIT
        return self._put(plain_topic(topic, count, perm, filter_type=source.topic_filter_type), now_ms)

    def create_retry_topic(self, topic: str, queue_count: int, now_ms: int) -> TopicConfig | None:
        """Create a group's `%RETRY%` (or `%DLQ%`) topic unless it is there."""
        if (found := self._topics.get(topic)) is not None:
            return found
        if len(self._topics) >= TOPICS_MAX:
            return None
        return self._put(plain_topic(topic, queue_count), now_ms)

    def restore(self, topic: str, queue_count: int, now_ms: int) -> TopicConfig | None:
        """Create a topic again that messages in the log belong to.

        Args:
            queue_count: what these messages need; the template of automatic creation may give it more.

        Returns:
            None when no send could make it, either: it must be made by hand.
        """
        template = self._topics.get(AUTO_CREATE_TOPIC)
        is_retry = topic.startswith((RETRY_PREFIX, DLQ_PREFIX))
        if len(self._topics) >= TOPICS_MAX or queue_count > QUEUES_PER_TOPIC_MAX:
            return None
        if not is_retry and (template is None or not self._auto_create_enable):
            return None
        count = queue_count if is_retry or template is None else max(queue_count, template.write_queue_count)
        return self._put(plain_topic(topic, count), now_ms)

    def masked(self, permission: int) -> Mapping[str, TopicConfig]:
        """Return the table as a registration carries it: no topic has more permission than the broker."""
        if permission & Perm.READ_WRITE == Perm.READ_WRITE:
            return self.all
        return {
            topic: dataclasses.replace(config, perm=config.perm & permission) for topic, config in self._topics.items()
        }

    def _put(self, config: TopicConfig, now_ms: int) -> TopicConfig:
        self._replaced.setdefault(config.topic, self._topics.get(config.topic))
        self._topics[config.topic] = config
        self.version = self.version.next(now_ms)
        return config


def check_topic_name(topic: str) -> None:
    """Raise Rejected 29 unless `topic` is a legal name (the same alphabet at every entry)."""
    try:
        check_name("topic", topic)
    except InvalidArgument as error:
        raise Rejected(ResponseCode.INVALID_PARAMETER, str(error)) from None


def _check(config: TopicConfig) -> None:
    check_topic_name(config.topic)
    for name, count in (("readQueueNums", config.read_queue_count), ("writeQueueNums", config.write_queue_count)):
        if not 0 < count <= QUEUES_PER_TOPIC_MAX:
            raise Rejected(
                ResponseCode.INVALID_PARAMETER, f"{name}: {count} is not allowed, expected 1 to {QUEUES_PER_TOPIC_MAX}"
            )
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
