"""Requests about topics on a broker, static topics among them."""

from __future__ import annotations

from orbitmq.codes import RequestCode
from orbitmq.wire.header import Int32, header, request
from orbitmq.wire.headers.offsets import (
    GetEarliestStoreTime,
    GetMaxOffset,
    GetMinOffset,
    QueryConsumerOffset,
    SearchOffset,
    UpdateConsumerOffset,
)
from orbitmq.wire.headers.pull import PullMessage

__all__ = [
    "CreateStaticTopic",
    "CreateTopic",
    "CreateTopics",
    "DeleteTopicInBroker",
    "ForwardedGetEarliestStoreTime",
    "ForwardedGetMaxOffset",
    "ForwardedGetMinOffset",
    "ForwardedPullMessage",
    "ForwardedQueryConsumerOffset",
    "ForwardedSearchOffset",
    "ForwardedUpdateConsumerOffset",
    "GetAllTopicConfig",
    "GetSystemTopicsOfBroker",
    "GetTopicConfig",
    "GetTopicStats",
    "QueryTopicConsumers",
]


@request(RequestCode.UPDATE_AND_CREATE_TOPIC)
class CreateTopic:
    """Create or change a topic."""

    topic: str
    default_topic: str
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32
    topic_filter_type: str
    topic_sys_flag: Int32 | None = None
    order: bool = False
    attributes: str | None = None
    force: bool | None = None


@request(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST)
class CreateTopics:
    """Create or change many topics; the body lists them."""


@request(RequestCode.DELETE_TOPIC_IN_BROKER)
class DeleteTopicInBroker:
    """Delete a topic and its queues."""

    topic: str


@request(RequestCode.GET_ALL_TOPIC_CONFIG)
class GetAllTopicConfig:
    """The broker's whole topic table."""


@request(RequestCode.GET_TOPIC_CONFIG)
class GetTopicConfig:
    """One topic's configuration."""

    topic: str


@request(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
class GetSystemTopicsOfBroker:
    """The topics that the broker made for itself."""


@request(RequestCode.GET_TOPIC_STATS_INFO)
class GetTopicStats:
    """Offsets and times of each queue of a topic."""

    topic: str


@request(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO)
class QueryTopicConsumers:
    """The groups that consume a topic."""

    topic: str


@request(RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC)
class CreateStaticTopic(CreateTopic):
    """Create or change a static topic on one broker; the body holds the broker's part of the mapping."""


@header
class ForwardedPullMessage(PullMessage):
    """A pull sent on."""

    lo: bool = False


@header
class ForwardedGetMaxOffset(GetMaxOffset):
    """A question for a queue's end, sent on."""

    lo: bool = False


@header
class ForwardedGetMinOffset(GetMinOffset):
    """A question for a queue's start, sent on."""

    lo: bool = False


@header
class ForwardedGetEarliestStoreTime(GetEarliestStoreTime):
    """A question for the time of a queue's first message, sent on."""

    lo: bool = False


@header
class ForwardedSearchOffset(SearchOffset):
    """A search by time, sent on."""

    lo: bool = False


@header
class ForwardedQueryConsumerOffset(QueryConsumerOffset):
    """A question for a group's offset, sent on."""

    lo: bool = False


@header
class ForwardedUpdateConsumerOffset(UpdateConsumerOffset):
    """A group's offset, sent on."""

    lo: bool = False
