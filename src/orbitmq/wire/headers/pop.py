"""Requests of POP consumers, which get messages for a time and acknowledge them one by one, and their answers."""

from __future__ import annotations

from orbitmq.codes import RequestCode
from orbitmq.wire.header import Int32, header, request, wire

__all__ = [
    "AckMessage",
    "BatchAckMessages",
    "ChangeInvisibleTime",
    "ChangeInvisibleTimeResponse",
    "GetAllRequestModes",
    "GetPollingCount",
    "PeekMessage",
    "PollingCountResponse",
    "PopMessage",
    "PopNotification",
    "PopNotificationResponse",
    "PopResponse",
    "QueryAssignment",
    "RollBackPops",
    "SetRequestMode",
]


@request(RequestCode.POP_MESSAGE)
class PopMessage:
    """Messages of a topic that are this consumer's for `invisible_ms`; the broker holds the request until there are some.

    `queue_id` -1 means any; `init_mode` 0 begins a new group at the queue's first message, 1 at its end.
    """

    consumer_group: str
    topic: str
    queue_id: Int32
    count_max: Int32 = wire("maxMsgNums")
    invisible_ms: int = wire("invisibleTime")
    poll_ms: int = wire("pollTime")
    born_at_ms: int = wire("bornTime", default=0)
    init_mode: Int32
    expression_type: str | None = wire("expType", default=None)
    expression: str | None = wire("exp", default=None)
    order: bool | None = None
    attempt_id: str | None = None
    broker_name: str | None = wire("bname", default=None)


@header
class PopResponse:
    """Says which messages the body holds: `wire.pop.handles` reads the last three."""

    pop_time_ms: int = wire("popTime")
    invisible_ms: int = wire("invisibleTime")
    revive_queue_id: Int32 = wire("reviveQid")
    rest_count: int = wire("restNum")
    start_offset_info: str | None = None
    message_offset_info: str | None = wire("msgOffsetInfo", default=None)
    order_count_info: str | None = None


@request(RequestCode.ACK_MESSAGE)
class AckMessage:
    """A popped message is done; `topic` is the one that it was in, a retry topic maybe."""

    consumer_group: str
    topic: str
    queue_id: Int32
    handle: str = wire("extraInfo")
    queue_offset: int = wire("offset")
    broker_name: str | None = wire("bname", default=None)


@request(RequestCode.BATCH_ACK_MESSAGE)
class BatchAckMessages:
    """PopResult messages are done; the body says which."""


@request(RequestCode.CHANGE_MESSAGE_INVISIBLETIME)
class ChangeInvisibleTime:
    """A popped message stays its consumer's for another `invisible_ms`, from now on; it gets a new handle."""

    consumer_group: str
    topic: str
    queue_id: Int32
    handle: str = wire("extraInfo")
    queue_offset: int = wire("offset")
    invisible_ms: int = wire("invisibleTime")
    broker_name: str | None = wire("bname", default=None)


@header
class ChangeInvisibleTimeResponse:
    """What changes in the message's handle."""

    pop_time_ms: int = wire("popTime")
    invisible_ms: int = wire("invisibleTime")
    revive_queue_id: Int32 = wire("reviveQid")


@request(RequestCode.NOTIFICATION)
class PopNotification:
    """Says when there are messages to pop, and gives none."""

    consumer_group: str
    topic: str
    queue_id: Int32
    poll_ms: int = wire("pollTime")
    born_at_ms: int = wire("bornTime", default=0)
    order: bool | None = None
    attempt_id: str | None = None
    broker_name: str | None = wire("bname", default=None)


@header
class PopNotificationResponse:
    """Whether there are messages, and whether too many requests wait."""

    has_message: bool = wire("hasMsg")
    polling_full: bool = False


@request(RequestCode.PEEK_MESSAGE)
class PeekMessage:
    """Messages that a pop would find: they stay where they are, and get no handles. `queue_id` -1 means any."""

    consumer_group: str
    topic: str
    queue_id: Int32
    count_max: Int32 = wire("maxMsgNums")
    broker_name: str | None = wire("bname", default=None)


@request(RequestCode.POLLING_INFO)
class GetPollingCount:
    """How many pops of a group wait at a queue."""

    consumer_group: str
    topic: str
    queue_id: Int32
    broker_name: str | None = wire("bname", default=None)


@header
class PollingCountResponse:
    """The number of waiting pops."""

    polling_count: Int32 = wire("pollingNum")


@request(RequestCode.QUERY_ASSIGNMENT)
class QueryAssignment:
    """Which queues a consumer is to read, and whether it pulls or pops; the body says which consumer asks."""


@request(RequestCode.SET_MESSAGE_REQUEST_MODE)
class SetRequestMode:
    """Lets a group pull a topic's messages, or pop them; the body says which."""


@request(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)
class GetAllRequestModes:
    """Every mode that was set, as a slave keeps them."""


@request(RequestCode.POP_ROLLBACK)
class RollBackPops:
    """Puts what a key-value store of Java's knows of popped messages back into the revive topic."""
