"""Requests about offsets: how far groups have consumed, where queues begin and end; and their answers."""

from __future__ import annotations

from orbitmq.codes import RequestCode
from orbitmq.wire.header import Int32, header, request, wire

__all__ = [
    "EarliestStoreTimeResponse",
    "GetEarliestStoreTime",
    "GetMaxOffset",
    "GetMinOffset",
    "OffsetResponse",
    "QueryConsumeTimeSpan",
    "QueryConsumerOffset",
    "QueryCorrectionOffset",
    "ResetGroupOffset",
    "SearchOffset",
    "UpdateConsumerOffset",
]


@request(RequestCode.QUERY_CONSUMER_OFFSET)
class QueryConsumerOffset:
    """Ask how far a group has consumed a queue."""

    consumer_group: str
    topic: str
    queue_id: Int32
    set_zero_if_not_found: bool | None = None
    broker_name: str | None = wire("bname", default=None)


@request(RequestCode.UPDATE_CONSUMER_OFFSET)
class UpdateConsumerOffset:
    """Store how far a group has consumed a queue; travels one-way or with an answer."""

    consumer_group: str
    topic: str
    queue_id: Int32
    commit_offset: int
    broker_name: str | None = wire("bname", default=None)


@header
class OffsetResponse:
    """One offset; answers 14, 29, 30 and 31."""

    offset: int


@request(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP)
class SearchOffset:
    """The first (lower) or last (upper) queue offset at a store time."""

    topic: str
    queue_id: Int32
    timestamp_ms: int = wire("timestamp")
    boundary_type: str | None = None
    broker_name: str | None = wire("bname", default=None)


@request(RequestCode.GET_MAX_OFFSET)
class GetMaxOffset:
    """The offset that the queue's next message will get."""

    topic: str
    queue_id: Int32
    committed: bool | None = None
    broker_name: str | None = wire("bname", default=None)


@request(RequestCode.GET_MIN_OFFSET)
class GetMinOffset:
    """The offset of the queue's first message that is still there."""

    topic: str
    queue_id: Int32
    broker_name: str | None = wire("bname", default=None)


@request(RequestCode.GET_EARLIEST_MSG_STORETIME)
class GetEarliestStoreTime:
    """Ask when the queue's first message was stored."""

    topic: str
    queue_id: Int32
    broker_name: str | None = wire("bname", default=None)


@header
class EarliestStoreTimeResponse:
    """Milliseconds since 1970, -1 for an empty queue."""

    timestamp_ms: int = wire("timestamp")


@request(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET)
class ResetGroupOffset:
    """Set where a group goes on in a topic: at a time, or in one queue at an offset.

    `timestamp_ms` below 0 is behind the newest message; `queue_id` and `offset` of -1 stand for none. Without `is_force`
    no queue goes forward, where the group's clients are told themselves.
    """

    group: str
    topic: str
    timestamp_ms: int = wire("timestamp")
    is_force: bool = False
    queue_id: Int32 = -1
    offset: int | None = None


@request(RequestCode.QUERY_CONSUME_TIME_SPAN)
class QueryConsumeTimeSpan:
    """Ask from when the messages of each queue of a topic are, and those that a group has got to."""

    topic: str
    group: str


@request(RequestCode.QUERY_CORRECTION_OFFSET)
class QueryCorrectionOffset:
    """Ask how far the slowest of a topic's groups is in each queue, against one group of them.

    `filter_groups` are left out, with commas between them.
    """

    compare_group: str
    topic: str
    filter_groups: str | None = None
