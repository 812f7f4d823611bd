"""The topic table of a running broker: every change is kept in its file and told to the NameServers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from orbitmq.broker.topics.logical_queues import StaticTopics
from orbitmq.broker.topics.table import TopicTable, with_lmq_topics
from orbitmq.broker.versioned_table import save_or_revert
from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected
from orbitmq.model.static_topic import QueueMapping
from orbitmq.model.topic import DLQ_PREFIX, RETRY_PREFIX, TopicConfig

Announced = Callable[[], None]


class TopicRegistry:
    """The broker's topics with what has to happen when they change.

    Args:
        save: writes the table's file and syncs it.
        announce: tells every NameServer of the changed table, then calls back; see `registration`.
        static: those of them that are static topics.
        has_lmq: topics `%LMQ%...` are there without having been made.
    """

    def __init__(
        self,
        table: TopicTable,
        save: Callable[[TopicTable], None],
        announce: Callable[[Announced | None], None],
        static: StaticTopics | None = None,
        *,
        has_lmq: bool = False,
    ) -> None:
        self.table = table
        self.static = static or StaticTopics()
        self.get = with_lmq_topics(table.get) if has_lmq else table.get
        """Return a topic's configuration or None; bound once, since every send and pull asks."""
        self._save = save
        self._announce = announce

    def changed(self, then: Announced | None = None) -> None:
        """Keep the changed table, and register it with every NameServer immediately.

        The file is written before the request is answered: a topic must not vanish under its messages.

        Args:
            then: is called when the NameServers that answer have been told.

        Raises:
            Rejected: 14, the disk refused; the table is as it was before the change.
        """
        save_or_revert(self.table, self._save, "the topic table")
        self._announce(then)

    def announce_again(self, now_ms: int, then: Announced) -> None:
        """Tell every NameServer of the topics under a new version: the broker's own permission has changed.

        Senders look the topics up again, too.
        """
        self.table.renew(now_ms)
        self.changed(then)

    def adopt(self, draft: TopicTable) -> None:
        """Take over the topics of a draft that is on the disk, and tell the NameServers."""
        self.table.adopt(draft)
        self._announce(None)

    def update(self, config: TopicConfig, now_ms: int, then: Announced | None = None) -> None:
        """Create a topic, or change it (see `TopicTable.update`)."""
        self.table.update(config, now_ms)
        self.changed(then)

    def update_static(
        self, config: TopicConfig, mapping: QueueMapping, now_ms: int, then: Announced, *, is_forced: bool
    ) -> None:
        """Create a static topic, or change it: its queues on this broker, and the logical queues in front of them.

        Raises:
            Rejected: see `TopicTable.update`, `StaticTopics.update`.
        """
        self.table.update(config, now_ms, queue_count_min=0)
        try:
            self.static.update(mapping, now_ms, is_forced=is_forced)
        except Rejected:
            self.table.revert()
            raise
        self.changed(then)

    def update_all(self, configs: Iterable[TopicConfig], now_ms: int, then: Announced | None = None) -> None:
        """Create topics, or change them, all or none."""
        self._put_all(self.table.update, configs, now_ms)
        self.changed(then)

    def copy_all(self, configs: Iterable[TopicConfig], now_ms: int) -> None:
        """Take a master's topics as they are, all or none."""
        self._put_all(self.table.copy, configs, now_ms)
        self.changed()

    def _put_all(
        self, put: Callable[[TopicConfig, int], TopicConfig], configs: Iterable[TopicConfig], now_ms: int
    ) -> None:
        try:
            for config in configs:
                put(config, now_ms)
        except Rejected:
            self.table.revert()
            raise

    def set_ordered(self, topics: Iterable[str], now_ms: int) -> None:
        """Let topics that this broker has be ordered, as a NameServer's table says (Java: updateOrderTopicConfig).

        A topic that the table does not name keeps what it is: `order` may be set by an administrator, too.
        """
        found = [config for topic in topics if (config := self.table.get(topic)) is not None and not config.order]
        if found:
            self.copy_all([replace(config, order=True) for config in found], now_ms)

    def delete(
        self,
        topic: str,
        now_ms: int,
        remove: Callable[[], None],
        then: Announced | None = None,
        *,
        retries: Iterable[str] = (),
    ) -> None:
        """Forget a topic.

        Args:
            retries: topics of its messages' retries, which go with it.
            remove: removes what belongs to it. The file is written before: a disk that refuses it leaves the topic and
                its messages as they are. When `remove` fails, NameServers are not told, and the deletion can be asked for again.
            then: see `changed`.
        """
        for name in (topic, *retries):
            self.table.delete(name, now_ms)
        save_or_revert(self.table, self._save, "the topic table")
        self.static.delete(topic, now_ms)
        remove()
        self._announce(then)

    def auto_create(self, topic: str, template: str, queue_count: int, now_ms: int) -> TopicConfig | None:
        """Create a topic that a send names (see `TopicTable.auto_create`)."""
        made = self.table.auto_create(topic, template, queue_count, now_ms)
        if made is not None:
            self.changed()
        return made

    def create_retry_topic(self, topic: str, queue_count: int, now_ms: int) -> TopicConfig | None:
        """Return a group's `%RETRY%` or `%DLQ%` topic, made if need be; None: there are too many topics."""
        if (found := self.get(topic)) is not None:
            return found
        made = self.table.create_retry_topic(topic, queue_count, now_ms)
        if made is not None:
            self.changed()
        return made

    def restore(self, topic: str, queue_count: int, now_ms: int) -> TopicConfig | None:
        """Create a topic again that messages in the log belong to (see `TopicTable.restore`)."""
        made = self.table.restore(topic, queue_count, now_ms)
        if made is not None:
            self.changed()
        return made

    def readable_queue(self, topic: str, queue_id: int) -> tuple[str, int]:
        """Return where a message goes that was accepted for a queue: to another one if consumers read that one no more.

        A message that waited (delayed, timed, half) may come after the topic has got fewer queues. Java stores it in the former
        queue, where no consumer finds it.
        """
        config = self.get(topic)
        is_read = config is None or topic in self.static.mappings or queue_id < config.read_queue_count
        return topic, queue_id if is_read or config is None else queue_id % max(1, config.read_queue_count)

    def check_queue(self, topic: str, queue_id: int) -> None:
        """Raise Rejected unless this broker has the queue; 17 for the topic, 1 for the queue."""
        config = self.get(topic)
        if config is None:
            raise Rejected(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic:.260}] not exist, apply first please!")
        count = config.queue_count
        if not 0 <= queue_id < count:
            raise Rejected(ResponseCode.SYSTEM_ERROR, f"queueId[{queue_id}] is illegal, topic[{topic}] has {count}")


def retry_topic(group: str) -> str:
    """Return the name of a group's retry topic."""
    return RETRY_PREFIX + group


def dead_letter_topic(group: str) -> str:
    """Return the name of the topic that keeps what a group could not process."""
    return DLQ_PREFIX + group
