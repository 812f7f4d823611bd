"""The destination of a send: its topic, made where that is allowed, and one of the topic's queues.

Source: Java AbstractSendMessageProcessor.msgCheck, SendMessageProcessor.handleRetryAndDLQ.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from random import Random

from orbitmq.broker.groups.registry import GroupRegistry
from orbitmq.broker.topics.registry import TopicRegistry, dead_letter_topic
from orbitmq.broker.topics.system_topics import CLOSED_TO_CLIENTS
from orbitmq.broker.topics.table import TopicTable, check_topic_name
from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected
from orbitmq.model.topic import DLQ_PREFIX, RETRY_PREFIX, Perm, TopicConfig
from orbitmq.wire.headers import SendMessage, SendMessageV2

SendHeader = SendMessage | SendMessageV2

_WRITE = int(Perm.WRITE)  # an IntFlag's `&` is a Python function, this one runs for every message


class QueueResolver:
    """Finds the topic and the queue that a send goes to.

    Args:
        ip: this broker's, for remarks.
        is_writable: False where the broker's own permission forbids sends.
        random: chooses a queue where the client leaves that to the broker.
        is_ordered: says whether a group consumes in order now: what such a group sends back is discarded.
        closed: topics that only the broker writes.
        awaited: topics that earlier sends wait for: they are not open to others before.
    """

    def __init__(
        self,
        topics: TopicRegistry,
        groups: GroupRegistry,
        *,
        ip: str,
        is_writable: bool,
        random: Random,
        is_ordered: Callable[[str], bool],
        closed: frozenset[str] = CLOSED_TO_CLIENTS,
        awaited: Collection[str] = frozenset(),
    ) -> None:
        self.topics = topics
        self.is_writable = is_writable
        self._groups = groups
        self._ip = ip
        self._random = random
        self._is_ordered = is_ordered
        self._closed = closed
        self._awaited = awaited

    def open_topic(self, topic: str) -> TopicConfig | None:
        """Return a topic that clients may send to without a second look, None for every other one."""
        if topic in self._awaited:
            return None
        config = self._writable_topic(topic)
        return None if config is None or topic.startswith(RETRY_PREFIX) else config

    def resolve(self, header: SendHeader, now_ms: int) -> TopicConfig:
        """Return the topic of a send that needs a second look: a retry, a topic that is new, or one that is closed.

        Raises:
            Rejected: 16, 17 or 29 in Java's order.
        """
        topic = header.topic
        config = self._writable_topic(topic)
        if config is None:
            config = self._new_topic(header, now_ms)
        return self._retry_or_dead_letter(header, config, now_ms) if topic.startswith(RETRY_PREFIX) else config

    def is_missing(self, topic: str) -> bool:
        """Return True if a topic is not there, or earlier sends still wait for it, and nothing else forbids the send."""
        is_there = self.topics.get(topic) is not None and topic not in self._awaited
        return self.is_writable and not is_there and topic not in self._closed

    def make(self, header: SendHeader, now_ms: int, table: TopicTable) -> Rejected | None:
        """Make the topic of a send in a draft of the table, unless it is there; return why where it may not be."""
        try:
            check_topic_name(header.topic)
            if table.get(header.topic) is None:
                self._create(header, now_ms, table)
        except Rejected as refusal:
            return refusal
        return None

    def choose_queue(self, config: TopicConfig, header: SendHeader) -> int:
        """Return the queue that the client asked for; below 0 it leaves the choice to the broker."""
        queue_id = header.queue_id
        if config.topic is not header.topic and config.topic != header.topic:
            return 0  # dead letters have one queue
        if queue_id < 0:
            return self._random.randrange(config.write_queue_count)
        _check_queue(config, queue_id)
        return queue_id

    def _writable_topic(self, topic: str) -> TopicConfig | None:
        config = self.topics.get(topic)
        if config is not None and config.perm & _WRITE and self.is_writable and topic not in self._closed:
            return config
        return None

    def _new_topic(self, header: SendHeader, now_ms: int) -> TopicConfig:
        topic = header.topic
        if not self.is_writable:
            raise Rejected(
                ResponseCode.NO_PERMISSION,
                f"the broker[{self._ip}] sending message is forbidden: no write permission",
            )
        check_topic_name(topic)
        if topic in self._closed:
            raise Rejected(ResponseCode.NO_PERMISSION, f"Sending message to topic[{topic}] is forbidden.")
        if self.topics.get(topic) is not None:
            raise Rejected(ResponseCode.NO_PERMISSION, f"the topic[{topic}] sending message is forbidden")
        return self._create(header, now_ms, self.topics)

    def _create(self, header: SendHeader, now_ms: int, topics: TopicRegistry | TopicTable) -> TopicConfig:
        topic = header.topic
        if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
            config = topics.create_retry_topic(topic, 1, now_ms)
        else:
            config = topics.auto_create(topic, header.default_topic, header.default_topic_queue_nums, now_ms)
        if config is None:
            advice = "create it with `orbitmq topic create` or mqadmin updateTopic, or set autoCreateTopicEnable=true"
            if self.topics.table.is_full:
                advice = f"there are {self.topics.table.count_max} topics, topicsMax allows no more"
            remark = f"topic[{topic}] not exist, apply first please! ({advice})"
            raise Rejected(ResponseCode.TOPIC_NOT_EXIST, remark)
        return config

    def _retry_or_dead_letter(self, header: SendHeader, config: TopicConfig, now_ms: int) -> TopicConfig:
        """Return the group's dead letters for a message that came back more often than its group allows.

        Consumers that keep order try again in place: what they send back, under whatever number, has failed for good.
        """
        _check_queue(config, header.queue_id)
        name = header.topic.removeprefix(RETRY_PREFIX)
        group = self._groups.find(name, now_ms)
        if group is None:
            raise Rejected(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group not exist, {name}")
        times_max = group.retry_times_max if header.max_reconsume_times is None else header.max_reconsume_times
        if (header.reconsume_times or 0) <= times_max and not self._is_ordered(name):
            return config
        dead_letters = dead_letter_topic(name)
        found = self.topics.create_retry_topic(dead_letters, 1, now_ms)
        if found is None:
            raise Rejected(ResponseCode.SYSTEM_ERROR, f"topic[{dead_letters}] cannot be created: too many topics")
        return found


def _check_queue(config: TopicConfig, queue_id: int) -> None:
    """Raise Rejected 29 for a queue that a topic has neither for senders nor for readers."""
    if queue_id >= config.write_queue_count and queue_id >= config.read_queue_count:
        raise Rejected(
            ResponseCode.INVALID_PARAMETER,
            f"request queueId[{queue_id}] is illegal, topic[{config.topic}] has {config.write_queue_count} queues",
        )
