"""Requests for messages, and their answers."""

from __future__ import annotations

from orbitmq.codes import RequestCode
from orbitmq.wire.header import Int32, header, request, wire

__all__ = [
    "LitePullMessage",
    "PullMessage",
    "PullResponse",
    "PullSysFlag",
    "QueryConsumeQueue",
    "QueryMessage",
    "QueryMessageResponse",
    "ViewMessage",
]


class PullSysFlag:
    """Bits of a pull's sys_flag (Java: PullSysFlag)."""

    COMMIT_OFFSET = 0x1
    SUSPEND = 0x2
    SUBSCRIPTION = 0x4
    CLASS_FILTER = 0x8
    LITE_PULL = 0x10


@request(RequestCode.PULL_MESSAGE)
class PullMessage:
    """Messages of one queue from an offset on; with SUSPEND the broker holds the request until there are some."""

    consumer_group: str
    topic: str
    queue_id: Int32
    queue_offset: int
    count_max: Int32 = wire("maxMsgNums")
    sys_flag: Int32
    commit_offset: int
    suspend_timeout_ms: int = wire("suspendTimeoutMillis")
    subscription: str | None = None
    sub_version: int
    expression_type: str | None = None
    size_max: Int32 | None = wire("maxMsgBytes", default=None)
    request_source: Int32 | None = None
    broker_name: str | None = wire("bname", default=None)


@request(RequestCode.LITE_PULL_MESSAGE)
class LitePullMessage(PullMessage):
    """PullMessage under the code that Java's lite pull consumer uses."""


@header
class PullResponse:
    """Says where the next pull begins, and from which broker; the body holds the records."""

    suggest_which_broker_id: int
    next_begin_offset: int
    min_offset: int
    max_offset: int
    offset_delta: int | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None
    forbidden_type: Int32 | None = None


@request(RequestCode.VIEW_MESSAGE_BY_ID)
class ViewMessage:
    """The record at a physical offset.

    Args:
        for_slave: also one that consumers may not see yet: a slave compares logs. Brokers that do not know it are asked plainly.
    """

    physical_offset: int = wire("offset")
    topic: str | None = None
    for_slave: bool | None = None


@request(RequestCode.QUERY_MESSAGE)
class QueryMessage:
    """The newest messages of a key, or of a unique key, that were stored between two times."""

    topic: str
    key: str
    count_max: Int32 = wire("maxNum")
    begin_ms: int = wire("beginTimestamp")
    end_ms: int = wire("endTimestamp")
    is_unique_key: bool | None = wire("_UNIQUE_KEY_QUERY", default=None)
    broker_name: str | None = wire("bname", default=None)


@header
class QueryMessageResponse:
    """Store time and place of the newest message in the index; the body holds the records."""

    index_end_ms: int = wire("indexLastUpdateTimestamp")
    index_end_offset: int = wire("indexLastUpdatePhyoffset")


@request(RequestCode.QUERY_CONSUME_QUEUE)
class QueryConsumeQueue:
    """Entries of a consume queue from a queue offset on."""

    topic: str
    queue_id: Int32
    index: int
    count: Int32
    consumer_group: str | None = None
    broker_name: str | None = wire("bname", default=None)
