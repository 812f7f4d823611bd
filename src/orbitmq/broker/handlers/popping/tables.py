"""Tables that the handlers of POP work on, and the checks that they share.

Source: Java PopMessageProcessor, AckMessageProcessor, NotificationProcessor, which all check the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from orbitmq.broker.delivery.filters import Filters
from orbitmq.broker.groups.admissions import Admissions
from orbitmq.broker.groups.registry import GroupRegistry
from orbitmq.broker.monitoring.stats import BrokerStats
from orbitmq.broker.pop.service import PopService
from orbitmq.broker.topics.registry import TopicRegistry
from orbitmq.codes import ResponseCode
from orbitmq.errors import InvalidArgument, Rejected
from orbitmq.model.topic import Perm
from orbitmq.net.dispatch.handlers import LATER, Call, Later, Reply
from orbitmq.store import Store
from orbitmq.wire.headers import (
    AckMessage,
    ChangeInvisibleTime,
    GetPollingCount,
    PeekMessage,
    PopMessage,
    PopNotification,
)
from orbitmq.wire.pop.handles import Handle, parse_handle
from orbitmq.wire.pop.revive_log import CheckpointKey

Asking = PopMessage | PopNotification | GetPollingCount | PeekMessage
AskingCall = Call[PopMessage] | Call[PopNotification] | Call[GetPollingCount] | Call[PeekMessage]
_READ = int(Perm.READ)


@dataclass(frozen=True, slots=True)
class PopTables:
    """What pops need.

    Args:
        ip: this broker's, for remarks.
        is_readable: False where the broker's own permission forbids reading.
    """

    store: Store
    pop: PopService
    filters: Filters
    topics: TopicRegistry
    groups: GroupRegistry
    admissions: Admissions
    broker_name: str
    ip: str
    is_readable: bool
    stats: BrokerStats


def with_group(tables: PopTables, call: AskingCall, answer: Callable[[], Reply | Later]) -> Reply | Later:
    """Answer a request whose group may pop; a new group is made first."""
    if not tables.is_readable:
        raise Rejected(ResponseCode.NO_PERMISSION, f"the broker[{tables.ip}] pop message is forbidden")
    check_topic(tables, call.header)
    name = call.header.consumer_group
    if tables.groups.configs.get(name) is not None:
        _check_group(tables, name)
        return answer()

    def admitted(refusal: Rejected | None) -> None:
        try:
            if refusal is not None:
                raise refusal
            _check_group(tables, name)
            reply = answer()
        except Rejected as error:
            reply = Reply(error.code, remark=error.remark)
        if reply is not LATER:
            call.answer(reply)

    tables.admissions.admit(call.connection, [name], call.now_ms, admitted, needs_retries=False)
    return LATER


def _check_group(tables: PopTables, name: str) -> None:
    group = tables.groups.configs.get(name)
    if group is None:
        raise Rejected(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group [{name:.260}] does not exist")
    if not group.consume_enable:
        raise Rejected(ResponseCode.NO_PERMISSION, f"subscription group no permission, {name}")


def check_topic(tables: PopTables, header: Asking) -> None:
    """Raise Rejected unless the topic may be read: 17 without it, 16, or 29 for its queue."""
    config = tables.topics.get(header.topic)
    if config is None:
        raise Rejected(ResponseCode.TOPIC_NOT_EXIST, f"topic[{header.topic:.260}] not exist, apply first please!")
    if not config.perm & _READ:
        raise Rejected(ResponseCode.NO_PERMISSION, f"the topic[{header.topic}] peeking message is forbidden")
    if not -1 <= header.queue_id < config.read_queue_count:
        raise Rejected(
            ResponseCode.INVALID_PARAMETER,
            f"queueId[{header.queue_id}] is illegal, topic:[{header.topic}] "
            f"topicConfig.readQueueNums:[{config.read_queue_count}] consumer:[{header.consumer_group:.260}]",
        )


def parse_ack(tables: PopTables, header: AckMessage | ChangeInvisibleTime) -> tuple[Handle, CheckpointKey]:
    """Return a message's handle, and what its checkpoint is found by.

    Raises:
        Rejected: 17, 13 for the topic and its queue; 29, the handle is none of this broker's.
    """
    config = tables.topics.get(header.topic)
    if config is None:
        raise Rejected(ResponseCode.TOPIC_NOT_EXIST, f"topic[{header.topic:.400}] not exist, apply first please!")
    if not 0 <= header.queue_id < config.read_queue_count:
        raise Rejected(
            ResponseCode.MESSAGE_ILLEGAL,
            f"queueId[{header.queue_id}] is illegal, topic:[{header.topic}] "
            f"topicConfig.readQueueNums:[{config.read_queue_count}] consumer:[{header.consumer_group:.260}]",
        )
    try:
        handle = parse_handle(header.handle)
    except InvalidArgument as error:
        raise Rejected(ResponseCode.INVALID_PARAMETER, str(error)) from None
    check_broker(tables, handle.broker_name)
    key = CheckpointKey(
        header.topic,
        header.consumer_group,
        header.queue_id,
        handle.start_offset,
        handle.pop_time_ms,
        tables.broker_name,
    )
    return handle, key


def check_broker(tables: PopTables, broker_name: str) -> None:
    """Raise Rejected 29 unless a handle is this broker's: nobody else's messages are acknowledged here."""
    if broker_name != tables.broker_name:
        raise Rejected(
            ResponseCode.INVALID_PARAMETER,
            f"brokerName: {broker_name[:80]!r} is not allowed, expected {tables.broker_name!r}: ask the broker that gave it",
        )
