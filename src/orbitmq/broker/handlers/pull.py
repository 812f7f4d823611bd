"""Pulling (11, 361) with tag filter and long polling, and reading one message by its place (33)."""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import NamedTuple

from orbitmq.broker.delivery.long_poll import ParkedPull
from orbitmq.broker.groups.clients import ConsumerGroup
from orbitmq.broker.service import BrokerService
from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected
from orbitmq.model.group import SUBSCRIBE_ALL, MessageModel, Subscription
from orbitmq.model.topic import Perm, TopicConfig
from orbitmq.net.dispatch.handlers import LATER, Call, Handlers, Later, Reply
from orbitmq.net.dispatch.peer import Peer
from orbitmq.store.values import ReadResult, ReadStatus
from orbitmq.wire.bodies.groups import GroupConfig
from orbitmq.wire.headers import LitePullMessage, PullMessage, PullResponse, PullSysFlag, ViewMessage
from orbitmq.wire.tags import tag_code

log = logging.getLogger(__name__)

handlers: Handlers[BrokerService] = Handlers()

MASTER_ID = 0
_READ = int(Perm.READ)
SUSPEND_MS_MAX = 60_000
"""Ours: nobody waits longer; a client that wants to asks again."""

_CODES = {
    ReadStatus.FOUND: ResponseCode.SUCCESS,
    ReadStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    ReadStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
    ReadStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    ReadStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
}


class Filter(NamedTuple):
    """What a pull wants: the codes of its tags, None for every message."""

    tag_codes: frozenset[int] | None


@handlers.on(PullMessage, LitePullMessage)
def pull(service: BrokerService, call: Call[PullMessage]) -> Reply | Later:
    """Answer with the queue's messages from an offset on, or wait for the first one."""
    header = call.header
    group = _check_group(service, header, call.now_ms)
    _check_topic(service, header)
    wanted = _filter_of(service, header, group)
    if header.sys_flag & PullSysFlag.COMMIT_OFFSET:
        end = service.store.max_offset(header.topic, header.queue_id)
        service.offsets.commit(
            header.consumer_group, header.topic, header.queue_id, header.commit_offset, offset_max=end
        )
    result = _read(service, header, wanted)
    reply = _reply(service, header, result)
    if reply.code == ResponseCode.PULL_NOT_FOUND and header.sys_flag & PullSysFlag.SUSPEND:
        suspend_ms = min(header.suspend_timeout_ms, SUSPEND_MS_MAX)
        if not service.config.long_polling_enable:
            suspend_ms = service.config.short_polling_time_mills
        if suspend_ms > 0 and _park(service, call, wanted.tag_codes, call.now_ms + suspend_ms):
            return LATER
    return reply


def retry_parked(service: BrokerService, pull: ParkedPull[Call[PullMessage]]) -> None:
    """Try a parked pull again, after a message came or its time ran out. Whatever goes wrong is its own answer."""
    header = pull.call.header
    try:
        reply = _reply(service, header, _read(service, header, Filter(pull.tag_codes)))
    except Rejected as refusal:
        reply = Reply(refusal.code, refusal.remark)
    except Exception as error:
        log.exception("a parked pull of %s queue %d failed", pull.topic, pull.queue_id)
        reply = Reply(ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")
    if reply.code == ResponseCode.PULL_NOT_FOUND and service.clock() < pull.deadline_ms and service.polls.park(pull):
        return
    pull.call.answer(reply)


def _check_group(service: BrokerService, header: PullMessage, now_ms: int) -> GroupConfig:
    if not service.is_readable:
        raise Rejected(ResponseCode.NO_PERMISSION, f"the broker[{service.host.ip}] pulling message is forbidden")
    group = service.find_group(header.consumer_group, now_ms)
    if group is None:
        raise Rejected(
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
            f"subscription group [{header.consumer_group:.80}] does not exist",
        )
    if not group.consume_enable:
        raise Rejected(ResponseCode.NO_PERMISSION, f"subscription group no permission, {header.consumer_group}")
    return group


def _check_topic(service: BrokerService, header: PullMessage) -> TopicConfig:
    config = service.topics.get(header.topic)
    if config is None:
        raise Rejected(ResponseCode.TOPIC_NOT_EXIST, f"topic[{header.topic:.140}] not exist, apply first please!")
    if not config.perm & _READ:
        raise Rejected(ResponseCode.NO_PERMISSION, f"the topic[{header.topic}] pulling message is forbidden")
    if not 0 <= header.queue_id < config.read_queue_count:
        raise Rejected(
            ResponseCode.SYSTEM_ERROR,
            f"queueId[{header.queue_id}] is illegal, topic:[{header.topic}] "
            f"topicConfig.readQueueNums:[{config.read_queue_count}] consumer:[{header.consumer_group}]",
        )
    return config


def _filter_of(service: BrokerService, header: PullMessage, group: GroupConfig) -> Filter:
    """Return the filter: from the request itself, or from what the group's heartbeats said."""
    if header.sys_flag & PullSysFlag.SUBSCRIPTION:
        _check_expression_type(header.expression_type)
        return Filter(parse_tag_codes(header.subscription or SUBSCRIBE_ALL))
    consumers = service.clients.find(header.consumer_group)
    if consumers is None:
        raise Rejected(
            ResponseCode.SUBSCRIPTION_NOT_EXIST, f"the consumer's group info not exist, {header.consumer_group}"
        )
    subscription = _subscription_of(consumers, header, group)
    _check_expression_type(subscription.expression_type)
    return Filter(parse_tag_codes(subscription.expression))


def _subscription_of(consumers: ConsumerGroup[Peer], header: PullMessage, group: GroupConfig) -> Subscription:
    if not group.consume_broadcast_enable and consumers.message_model == MessageModel.BROADCASTING:
        raise Rejected(
            ResponseCode.NO_PERMISSION, f"the consumer group[{group.group}] can not consume by broadcast way"
        )
    subscription = consumers.subscriptions.get(header.topic)
    if subscription is None:
        raise Rejected(ResponseCode.SUBSCRIPTION_NOT_EXIST, f"the consumer's subscription not exist, {group.group}")
    if subscription.version < header.sub_version:
        raise Rejected(ResponseCode.SUBSCRIPTION_NOT_LATEST, f"the consumer's subscription not latest, {group.group}")
    return subscription


def _check_expression_type(expression_type: str | None) -> None:
    if expression_type not in (None, "", "TAG"):
        raise Rejected(
            ResponseCode.SYSTEM_ERROR,
            f"The broker does not support consumer to filter message by {expression_type:.20}",
        )


@lru_cache(maxsize=4096)
def parse_tag_codes(expression: str) -> frozenset[int] | None:
    """Return the codes of the tags in `a || b`, None for every message.

    Raises:
        Rejected: 23, an expression without a tag.
    """
    if expression.strip() in ("", SUBSCRIBE_ALL):
        return None
    tags = {tag.strip() for tag in expression.split("||")} - {""}
    if not tags:
        raise Rejected(ResponseCode.SUBSCRIPTION_PARSE_FAILED, "parse the consumer's subscription failed")
    return frozenset(map(tag_code, tags))


def _read(service: BrokerService, header: PullMessage, wanted: Filter) -> ReadResult:
    config = service.config
    if header.count_max < 1:
        raise Rejected(ResponseCode.SYSTEM_ERROR, f"maxMsgNums: {header.count_max} is not allowed, expected 1 or more")
    size_max = config.max_transfer_bytes_on_message_in_memory
    if header.size_max is not None and 0 < header.size_max < size_max:
        size_max = header.size_max
    return service.store.read(
        header.topic,
        header.queue_id,
        header.queue_offset,
        min(header.count_max, config.max_transfer_count_on_message_in_memory),
        size_max,
        wanted.tag_codes,
    )


def _reply(service: BrokerService, header: PullMessage, result: ReadResult) -> Reply:
    stats = service.stats
    code = _CODES.get(result.status)
    if code is None:  # an empty queue: its reader waits at 0, anybody else has lost the way
        code = ResponseCode.PULL_NOT_FOUND if header.queue_offset == 0 else ResponseCode.PULL_OFFSET_MOVED
    if code == ResponseCode.SUCCESS:
        stats.found_count += 1
        stats.get_count += result.message_count
        stats.get_size += len(result.body)
    else:
        stats.miss_count += 1
    return Reply(
        code,
        None if code == ResponseCode.SUCCESS else result.status.name,
        PullResponse(
            suggest_which_broker_id=MASTER_ID,
            next_begin_offset=result.next_offset,
            min_offset=result.min_offset,
            max_offset=result.max_offset,
        ),
        result.body,
    )


def _park(service: BrokerService, call: Call[PullMessage], tag_codes: frozenset[int] | None, deadline_ms: int) -> bool:
    header = call.header
    return service.polls.park(
        ParkedPull(header.topic, header.queue_id, header.queue_offset, tag_codes, deadline_ms, call.connection, call)
    )


@handlers.on(ViewMessage)
def view_message(service: BrokerService, call: Call[ViewMessage]) -> Reply:
    """Answer with the record at a physical offset."""
    record = service.store.record_at(call.header.physical_offset)
    if record is None:
        raise Rejected(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {call.header.physical_offset}")
    return Reply(body=record)
