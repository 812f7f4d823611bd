"""Topics: permissions, configuration, the version of a broker's topic table, and the one check of names."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntFlag
from typing import NamedTuple

from orbitmq.errors import InvalidArgument

NAME_LENGTH_MAX = 127
"""Characters of a topic name (Java: Validators.TOPIC_MAX_LENGTH, TopicValidator)."""
QUEUES_MAX = 1024
DEFAULT_QUEUE_COUNT = 4
"""Queues of a new topic on each broker, where nothing else is said (Java's producers: defaultTopicQueueNums)."""
"""Queues of a topic on one broker that our tools ask for."""
GROUP_LENGTH_MAX = 255
"""Characters of a group that clients let through (Java: Validators.CHARACTER_MAX_LENGTH); our brokers take fewer."""

AUTO_CREATE_TOPIC = "TBW102"
"""The template of automatically created topics (Java: TopicValidator.AUTO_CREATE_TOPIC_KEY_TOPIC)."""
RETRY_PREFIX = "%RETRY%"
DLQ_PREFIX = "%DLQ%"
LMQ_PREFIX = "%LMQ%"
"""Of topics that are one LMQ (light message queue) each: messages of other topics name them (Java: MixAll.LMQ_PREFIX)."""
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
"""Messages whose transactions are open."""
OP_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
"""Which of them need no decision any more."""
GIVEN_UP_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
"""Undecided half messages that were discarded."""
TIMER_TOPIC = "rmq_sys_wheel_timer"
"""Where messages wait for a time of their own (Java: TimerMessageStore.TIMER_TOPIC)."""
DELETIONS_TOPIC = "rmq_sys_ORBITMQ_DELETIONS"
"""Where the log says that a topic (the body) is deleted, for brokers that copy it."""
_REPLY_SUFFIX = "_REPLY_TOPIC"

_NAME = re.compile(r"[%|a-zA-Z0-9_-]+")
_SYSTEM_TOPICS = frozenset(
    (AUTO_CREATE_TOPIC, SCHEDULE_TOPIC, "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT", "BenchmarkTest")
)
TOPIC_KINDS = ("user", "retry", "dead letters", "system")
_SYSTEM_PREFIXES = ("RMQ_SYS_", "rmq_sys_", "%SYS%")


class Perm(IntFlag):
    """Permission bits of a topic's queues on one broker (Java: PermName)."""

    INHERIT = 1
    WRITE = 2
    READ = 4
    PRIORITY = 8
    READ_WRITE = 6


PERMISSIONS = {"rw": int(Perm.READ_WRITE), "r": int(Perm.READ), "w": int(Perm.WRITE)}
"""The words of our tools for permission bits."""


def permission_word(perm: int) -> str:
    """Return the word for what a topic's queues permit, `none` where they can neither be read nor be sent to."""
    return next((word for word, bits in PERMISSIONS.items() if bits == perm & Perm.READ_WRITE), "none")


class DataVersion(NamedTuple):
    """Version of a broker's table; equal only when all three parts are (Java: DataVersion.equals)."""

    state_version: int = 0
    timestamp_ms: int = 0
    counter: int = 0

    def next(self, now_ms: int, state_version: int = 0, *, change_count: int = 1) -> DataVersion:
        """Return the version after one more change, or after several."""
        return DataVersion(state_version, now_ms, self.counter + change_count)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """One topic on one broker (Java: TopicConfig)."""

    topic: str
    read_queue_count: int = 16
    write_queue_count: int = 16
    perm: int = int(Perm.READ_WRITE)
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: int = 0
    order: bool = False
    attributes: Mapping[str, str] = field(default_factory=dict)

    @property
    def queue_count(self) -> int:
        """Queues that may hold messages: more are read than written while a topic shrinks."""
        return max(self.read_queue_count, self.write_queue_count)


def check_name(kind: str, name: str, length_max: int = NAME_LENGTH_MAX) -> str:
    """Return `name` when it is a legal topic, group, broker or cluster name.

    Args:
        kind: what the name is for; stands in the error ("topic", "group" ...).
        length_max: characters.

    Raises:
        InvalidArgument: empty, too long, or outside the alphabet `%|a-zA-Z0-9_-`.

    Source: Java TopicValidator.validateTopic and Validators.checkGroup: the same alphabet at every entry.
    """
    if not isinstance(name, str) or not name:
        raise InvalidArgument(kind, name, "a name that is not empty")
    if len(name) > length_max:
        raise InvalidArgument(kind, name, f"at most {length_max} characters, not {len(name)}")
    if _NAME.fullmatch(name) is None:
        raise InvalidArgument(kind, name, "only letters, digits and % | _ -")
    return name


def is_name(text: str, length_max: int = GROUP_LENGTH_MAX) -> bool:
    """Return True if a text can be a name; a record that another program wrote may hold any."""
    try:
        check_name("topic", text, length_max)
    except InvalidArgument:
        return False
    return True


def reply_topic(cluster: str) -> str:
    """Return the topic that replies to requests are sent to (Java: MixAll.getReplyTopic)."""
    return cluster + _REPLY_SUFFIX


RESERVE_TIME = "reserve.time"
"""The attribute of a topic that says for how many hours its messages are shown."""


def retention_hours(config: TopicConfig | None) -> int:
    """Return for how many hours a topic's messages are shown; 0: as long as the log has them."""
    text = config.attributes.get(RESERVE_TIME, "") if config is not None else ""
    return int(text) if text.removeprefix("+").isdecimal() else 0


def is_reserved_topic(topic: str) -> bool:
    """Return True if RocketMQ keeps `topic` for itself, by its name alone (Java: TopicValidator.SYSTEM_TOPIC_SET).

    Topics that are named after a cluster or a broker are not known by their name; retry and dead-letter topics belong to
    their groups.
    """
    return topic in _SYSTEM_TOPICS or topic.startswith(_SYSTEM_PREFIXES)


def topics_named_after(clusters: Iterable[str], brokers: Iterable[str]) -> frozenset[str]:
    """Return the topics that brokers make and name after themselves and their clusters."""
    names = frozenset(clusters)
    return names | frozenset(brokers) | frozenset(map(reply_topic, names))


def kind_of(topic: str, own: Container[str] = ()) -> str:
    """Return what a topic is for, one of `TOPIC_KINDS`.

    Args:
        own: the topics that are named after a cluster or a broker; all others are known by their names alone.
    """
    if topic.startswith(RETRY_PREFIX):
        return "retry"
    if topic.startswith(DLQ_PREFIX):
        return "dead letters"
    return "system" if is_reserved_topic(topic) or topic in own else "user"
