"""POP_MESSAGE (200050): messages that are a consumer's for a time; PEEK_MESSAGE (200052), POP_ROLLBACK (200056).

Source: Java PopMessageProcessor, AckMessageProcessor, NotificationProcessor, which all check the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from orbitmq.broker.delivery.filters import Filters, Selection
from orbitmq.broker.groups.auto_creation import AutoCreation
from orbitmq.broker.groups.registry import GroupRegistry
from orbitmq.broker.handlers.pull import ASK_MASTER
from orbitmq.broker.monitoring.stats import BrokerStats
from orbitmq.broker.pop.pops import PopRequest, PopResult
from orbitmq.broker.pop.service import PopService
from orbitmq.broker.sending.answers import SendAnswers, refusal_of
from orbitmq.broker.service import BrokerService
from orbitmq.broker.topics.registry import TopicRegistry
from orbitmq.codes import ResponseCode
from orbitmq.errors import InvalidArgument, Rejected, StoreUnavailable
from orbitmq.model.topic import Perm
from orbitmq.net.dispatch.handlers import LATER, Call, Handlers, Later, Reply
from orbitmq.store import PropertyTest, Store
from orbitmq.store.queues.consume_queues import NAME_SIZE_MAX, is_directory_name
from orbitmq.wire.headers import (
    AckMessage,
    ChangeInvisibleTime,
    GetPollingCount,
    PeekMessage,
    PopMessage,
    PopNotification,
    PopResponse,
    RollBackPops,
)
from orbitmq.wire.pop.handles import (
    NORMAL,
    ORDER_REVIVE_QUEUE,
    RETRY_V1,
    Handle,
    format_message_offsets,
    format_start_offsets,
    parse_handle,
    pop_retry_topic,
    retry_kind,
)
from orbitmq.wire.pop.revive_log import COUNT_MAX, CheckpointKey

Asking = PopMessage | PopNotification | GetPollingCount | PeekMessage
AskingCall = Call[PopMessage] | Call[PopNotification] | Call[GetPollingCount] | Call[PeekMessage]
_READ = int(Perm.READ)


@dataclass(frozen=True, slots=True, kw_only=True)
class PopTables:
    """What pops need.

    Args:
        ip: this broker's, for remarks.
        is_readable: False where the broker's own permission forbids reading.
        is_unsettled: see `PullTables`.
    """

    store: Store
    answers: SendAnswers
    pop: PopService
    filters: Filters
    topics: TopicRegistry
    groups: GroupRegistry
    auto_creation: AutoCreation
    broker_name: str
    ip: str
    is_readable: bool
    is_unsettled: bool
    stats: BrokerStats

    @classmethod
    def of(cls, broker: BrokerService) -> PopTables:
        """Return what the pops of a broker need: looked up once, not for each pop."""
        tables = broker.tables
        return cls(
            store=broker.store,
            answers=broker.sends.sending.answers,
            pop=broker.delivery.pop,
            filters=broker.delivery.filters,
            topics=tables.topics,
            groups=tables.groups,
            auto_creation=tables.auto_creation,
            broker_name=broker.config.broker_name,
            ip=broker.address.host.ip,
            is_readable=broker.is_readable,
            is_unsettled=broker.is_unsettled,
            stats=broker.monitoring.stats,
        )


def with_group(tables: PopTables, call: AskingCall, answer: Callable[[], Reply | Later]) -> Reply | Later:
    """Answer a request whose group may pop; a new group is made first."""
    if not tables.is_readable:
        raise Rejected(ResponseCode.NO_PERMISSION, f"the broker[{tables.ip}] pop message is forbidden")
    if tables.is_unsettled:
        raise Rejected(ResponseCode.SYSTEM_BUSY, ASK_MASTER)
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

    tables.auto_creation.admit(call.connection, [name], call.now_ms, admitted, needs_retries=False)
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
    """Raise Rejected 29 unless a handle is this broker's: messages of other brokers are not acknowledged here."""
    if broker_name != tables.broker_name:
        raise Rejected(
            ResponseCode.INVALID_PARAMETER,
            f"brokerName: {broker_name[:80]!r} is not allowed, expected {tables.broker_name!r}: ask the broker that gave it",
        )


handlers: Handlers[PopTables] = Handlers()

INVISIBLE_MS_MAX = 3 * 86_400_000
"""Three days, as long as Java's timer may hold a checkpoint (timerMaxDelaySec)."""
ATTEMPT_LENGTH_MAX = 256


@handlers.on(PopMessage)
def pop(tables: PopTables, call: Call[PopMessage]) -> Reply | Later:
    """Answer with messages, or wait for the first one. A new group is made first."""
    _check(tables, call.header)
    return with_group(tables, call, lambda: _pop(tables, call))


def _check(tables: PopTables, header: PopMessage) -> None:
    """Raise Rejected for a number that no pop may have, and for names whose messages could never come again."""
    if header.count_max > COUNT_MAX:
        raise Rejected(
            ResponseCode.INVALID_PARAMETER, f"the broker[{tables.ip}] pop message's num is greater than {COUNT_MAX}"
        )
    if header.count_max < 0:
        raise Rejected(
            ResponseCode.INVALID_PARAMETER, f"maxMsgNums: {header.count_max} is not allowed, expected 0 to {COUNT_MAX}"
        )
    check_invisible_time(header.invisible_ms)
    check_attempt(header.attempt_id)
    retry_topic = pop_retry_topic(header.topic, header.consumer_group, RETRY_V1)
    if retry_kind(header.topic) == NORMAL and not is_directory_name(retry_topic):
        raise Rejected(
            ResponseCode.INVALID_PARAMETER,
            f"consumerGroup: {len(header.consumer_group)} characters are not allowed, expected at most "
            f"{NAME_SIZE_MAX - len(retry_topic) + len(header.consumer_group)}: the retry topic's name holds the group's and "
            f"the topic's {len(header.topic)}",
        )


def check_invisible_time(invisible_ms: int) -> None:
    """Raise Rejected 29 unless messages may be invisible for so long."""
    if not 0 <= invisible_ms <= INVISIBLE_MS_MAX:
        raise Rejected(
            ResponseCode.INVALID_PARAMETER,
            f"invisibleTime: {invisible_ms} is not allowed, expected 0 to {INVISIBLE_MS_MAX} ms",
        )


def check_attempt(attempt_id: str | None) -> None:
    """Raise Rejected 29 unless an attempt's name may be kept."""
    if attempt_id is not None and len(attempt_id) > ATTEMPT_LENGTH_MAX:
        raise Rejected(
            ResponseCode.INVALID_PARAMETER,
            f"attemptId: {len(attempt_id)} characters are not allowed, expected at most {ATTEMPT_LENGTH_MAX}",
        )


def _pop(tables: PopTables, call: Call[PopMessage]) -> Reply | Later:
    header, pops = call.header, tables.pop.pops
    if not header.count_max:
        return _nothing(tables, header, ResponseCode.POLLING_TIMEOUT)
    selection: Selection = None
    if header.expression:
        selection = tables.filters.of_request(header.expression, header.expression_type, call.now_ms)
    asked = PopRequest(
        header.topic, header.consumer_group, header.queue_id, header.count_max, header.invisible_ms, header.init_mode,
        selection, bool(header.order), header.attempt_id,
    )  # fmt: skip
    # What others have not read yet leaves no room for more, and expressions have their share of a turn.
    is_postponed = not call.connection.has_room(0) or (isinstance(selection, PropertyTest) and pops.is_busy)
    reply = None if is_postponed else _attempt(tables, header, asked)
    if reply is not None:
        return reply
    return _wait(tables, call, asked, is_postponed=is_postponed)


def _attempt(tables: PopTables, header: PopMessage, asked: PopRequest) -> Reply | None:
    """Return the answer when there are messages now."""
    check_topic(tables, header)
    pops = tables.pop.pops
    if pops.is_full:
        pops.over_checkpoints += 1
        raise Rejected(
            ResponseCode.FLOW_CONTROL,
            "too many popped messages wait for their acks: popCheckpointsMax allows no more checkpoints",
        )
    try:
        popped = pops.pop(asked)
    except StoreUnavailable as error:
        raise refusal_of(error) from None
    if popped.rest_count and (popped.count or popped.is_cut):
        tables.pop.waiting.wake_soon(asked.topic, asked.group, asked.queue_id)
    if not popped.count:
        if asked.is_ordered:
            tables.pop.wake_when_free((asked.topic, asked.group, asked.queue_id))
        return None
    tables.store.bound_unsynced(tables.store.max_physical_offset)
    return Reply(remark="FOUND", header=_response(header, popped), body=b"".join(popped.records))


def _wait(tables: PopTables, call: Call[PopMessage], asked: PopRequest, *, is_postponed: bool) -> Reply | Later:
    header = call.header
    selection = asked.selection
    if header.poll_ms > 0:
        is_held = tables.pop.waiting.hold(
            call.connection,
            call.command,
            (asked.topic, asked.group, asked.queue_id),
            selection.tag_codes if isinstance(selection, PropertyTest) else selection,
            header.poll_ms,
            lambda: _attempt(tables, header, asked),
            lambda: _nothing(tables, header, ResponseCode.POLLING_TIMEOUT),
        )
        if not is_held:
            return _nothing(tables, header, ResponseCode.POLLING_FULL)
        if is_postponed:
            tables.pop.waiting.wake(asked.topic, asked.group, asked.queue_id)
        return LATER
    return _nothing(tables, header, ResponseCode.POLLING_TIMEOUT)


def _nothing(tables: PopTables, header: PopMessage, code: ResponseCode) -> Reply:
    queue_id = ORDER_REVIVE_QUEUE if header.order else tables.pop.revive_log.next_queue_id()
    return Reply(code, "NO_MESSAGE_IN_QUEUE", _response(header, PopResult(tables.pop.pops.now_ms(), queue_id)))


def _response(header: PopMessage, popped: PopResult) -> PopResponse:
    return PopResponse(
        pop_time_ms=popped.pop_time_ms,
        invisible_ms=header.invisible_ms,
        revive_queue_id=popped.revive_queue_id,
        rest_count=popped.rest_count,
        start_offset_info=format_start_offsets(popped.queues),
        message_offset_info=format_message_offsets(popped.queues),
        order_count_info=";".join(popped.order_counts) if header.order else None,
    )


@handlers.on(PeekMessage)
def peek(tables: PopTables, call: Call[PeekMessage]) -> Reply | Later:
    """Answer with messages that wait for a group; `restNum` counts all that do."""
    header = call.header

    def answer() -> Reply:
        count_max = min(header.count_max, COUNT_MAX)
        peeked = tables.pop.pops.peek(header.topic, header.consumer_group, header.queue_id, count_max)
        response = PopResponse(pop_time_ms=0, invisible_ms=0, revive_queue_id=0, rest_count=peeked.rest_count)
        if not peeked.count:
            return Reply(ResponseCode.PULL_NOT_FOUND, "NO_MESSAGE_IN_QUEUE", response)
        return Reply(remark="FOUND", header=response, body=b"".join(peeked.records))

    return with_group(tables, call, answer)


@handlers.on(RollBackPops)
def roll_back_pops(tables: PopTables, call: Call[RollBackPops]) -> Reply:
    """Do as a Java broker without the key-value store of its popConsumerKVServiceInit: everything is in the topic already."""
    return Reply()
