"""Pulling (11, 361) with filters and long polling.

Source: Java PullMessageProcessor.
"""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.broker.delivery.filters import Filters, Selection
from orbitmq.broker.delivery.pulls import Pulls
from orbitmq.broker.groups.auto_creation import AutoCreation
from orbitmq.broker.groups.members import ConsumerGroup, GroupMembers
from orbitmq.broker.groups.offsets import GroupOffsets
from orbitmq.broker.groups.registry import GroupRegistry
from orbitmq.broker.handlers.logical_queues import serve_pull
from orbitmq.broker.service import BrokerService
from orbitmq.broker.topics.registry import TopicRegistry
from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected
from orbitmq.model.group import MessageModel, Subscription
from orbitmq.model.topic import Perm
from orbitmq.net.connection.budgets import LARGE_SIZE
from orbitmq.net.dispatch.handlers import LATER, Call, Handlers, Later, Reply
from orbitmq.net.dispatch.peer import Peer
from orbitmq.store import PropertyTest, ReadResult, ReadStatus, Store
from orbitmq.wire.bodies.groups import GroupConfig
from orbitmq.wire.headers import LitePullMessage, PullMessage, PullSysFlag


@dataclass(frozen=True, slots=True, kw_only=True)
class PullTables:
    """What pulls need.

    Args:
        ip: this broker's, for remarks.
        is_readable: False where the broker's own permission forbids pulls.
        is_unsettled: True at a slave of a controlled group: it may have what is lost with its master, and shows nothing.
        suspend_ms: how long every pull waits that may wait; None: as long as its client says.
    """

    store: Store
    pulls: Pulls
    filters: Filters
    topics: TopicRegistry
    groups: GroupRegistry
    auto_creation: AutoCreation
    members: GroupMembers[Peer]
    offsets: GroupOffsets
    ip: str
    is_readable: bool
    is_unsettled: bool
    suspend_ms: int | None

    @classmethod
    def of(cls, broker: BrokerService) -> PullTables:
        """Return what the pulls of a broker need: looked up once, not for each pull."""
        config, tables = broker.config, broker.tables
        return cls(
            store=broker.store,
            pulls=broker.delivery.pulls,
            filters=broker.delivery.filters,
            topics=tables.topics,
            groups=tables.groups,
            auto_creation=tables.auto_creation,
            members=broker.clients.members,
            offsets=tables.offsets,
            ip=broker.address.host.ip,
            is_readable=broker.is_readable,
            is_unsettled=broker.is_unsettled,
            suspend_ms=None if config.long_polling_enable else config.short_polling_time_mills,
        )


handlers: Handlers[PullTables] = Handlers()

SUSPEND_MS_MAX = 60_000
"""Ours: no pull waits longer; a client that wants to asks again."""
ASK_MASTER = "this broker is a slave of a controlled group: ask the master, or wait until there is one"
_READ = int(Perm.READ)


@handlers.on(PullMessage, LitePullMessage)
def pull(tables: PullTables, call: Call[PullMessage]) -> Reply | Later:
    """Answer with the queue's messages from an offset on, or wait for the first one. A new group is made first."""
    static = tables.topics.static
    if static.mappings and (queue := static.queue_of(call)) is not None:
        return serve_pull(static, call, queue, lambda: pull(tables, call))
    header = call.header
    group = _check_group(tables, header)
    if group is None:
        return _admit(tables, call)
    return _read(tables, call, group)


def _admit(tables: PullTables, call: Call[PullMessage]) -> Later:
    """Answer when the group is made."""

    def answer(refusal: Rejected | None) -> None:
        try:
            if refusal is not None:
                raise refusal
            # It was made just now, or the disk did not take it: then it has what every new group has.
            group = _check_group(tables, call.header) or GroupConfig(group=call.header.consumer_group)
            # Many may have waited for the same group: they are read for one after another, as their clients read.
            reply = _read(tables, call, group, is_late=True)
        except Rejected as error:
            reply = Reply(error.code, remark=error.remark)
        if reply is not LATER:
            call.answer(reply)

    group = call.header.consumer_group
    tables.auto_creation.admit(call.connection, [group], call.now_ms, answer, needs_retries=False)
    return LATER


def _read(tables: PullTables, call: Call[PullMessage], group: GroupConfig, *, is_late: bool = False) -> Reply | Later:
    header = call.header
    _check_topic(tables, header)
    selection = _selection_of(tables, header, group, call.now_ms)
    if tables.offsets.resets and (moved := _moved(tables, header)) is not None:
        return moved
    if header.sys_flag & PullSysFlag.COMMIT_OFFSET:
        end = tables.store.max_offset(header.topic, header.queue_id)
        tables.offsets.commit(
            header.consumer_group, header.topic, header.queue_id, header.commit_offset, offset_max=end
        )
    is_filtered_later = isinstance(selection, PropertyTest) and tables.pulls.is_busy
    if is_late or is_filtered_later:
        if tables.pulls.enqueue(call, selection, _suspend_ms(tables, header)):
            return LATER
        if is_filtered_later:
            raise Rejected(ResponseCode.FLOW_CONTROL, "too many pulls wait for their turn to be filtered")
    reply = tables.pulls.read(header, selection)
    if reply.code == ResponseCode.PULL_NOT_FOUND:
        suspend_ms = _suspend_ms(tables, header)
        if suspend_ms > 0 and tables.pulls.hold(call, selection, suspend_ms):
            return LATER
    # What others have not read yet leaves large answers no room: those wait here, and not in memory.
    size = len(reply.body)
    if size > LARGE_SIZE and not call.connection.has_room(size) and tables.pulls.wait_for_room(call, selection, size):
        return LATER
    return reply


def find_plain(
    tables: PullTables, header: PullMessage, queue_offset: int, commit_offset: int, now_ms: int, peer: Peer
) -> tuple[ReadResult, int] | None:
    """Return the messages that a pull finds now, and the id of the broker that its reader should ask next.

    Args:
        header: the pull, but for its offsets.

    Returns:
        None: `pull` has to decide; nothing was committed or counted.

    Raises:
        Rejected: `pull` says why.
    """
    group = _check_group(tables, header)
    if group is None or tables.topics.static.mappings or tables.offsets.resets:
        return None
    _check_topic(tables, header)
    selection = _selection_of(tables, header, group, now_ms)
    if isinstance(selection, PropertyTest):
        return None
    result = tables.pulls.find(header, queue_offset, selection)
    size = len(result.body)
    if result.status is not ReadStatus.FOUND or (size > LARGE_SIZE and not peer.has_room(size)):
        return None
    if header.sys_flag & PullSysFlag.COMMIT_OFFSET:
        place = header.consumer_group, header.topic, header.queue_id
        tables.offsets.commit(*place, commit_offset, offset_max=result.max_offset)
    return result, tables.pulls.count(header.topic, header.consumer_group, header.queue_id, result)


def _moved(tables: PullTables, header: PullMessage) -> Reply | None:
    """Return the answer to the first pull after the group's offset was reset; None when its reader is there already."""
    offset = tables.offsets.take_reset(header.consumer_group, header.topic, header.queue_id)
    if offset is None:
        return None
    is_committing = bool(header.sys_flag & PullSysFlag.COMMIT_OFFSET)
    is_there = header.queue_offset == offset and (not is_committing or header.commit_offset == offset)
    return None if is_there else tables.pulls.moved(header, offset)


def _suspend_ms(tables: PullTables, header: PullMessage) -> int:
    """Return how long a pull may wait for messages."""
    if not header.sys_flag & PullSysFlag.SUSPEND:
        return 0
    return min(header.suspend_timeout_ms, SUSPEND_MS_MAX) if tables.suspend_ms is None else tables.suspend_ms


def _check_group(tables: PullTables, header: PullMessage) -> GroupConfig | None:
    """Return the settings of the group, None when it is new."""
    if not tables.is_readable:
        raise Rejected(ResponseCode.NO_PERMISSION, f"the broker[{tables.ip}] pulling message is forbidden")
    if tables.is_unsettled:
        raise Rejected(ResponseCode.SYSTEM_BUSY, ASK_MASTER)
    group = tables.groups.configs.get(header.consumer_group)
    if group is not None and not group.consume_enable:
        raise Rejected(ResponseCode.NO_PERMISSION, f"subscription group no permission, {header.consumer_group}")
    return group


def _check_topic(tables: PullTables, header: PullMessage) -> None:
    config = tables.topics.get(header.topic)
    if config is None:
        raise Rejected(ResponseCode.TOPIC_NOT_EXIST, f"topic[{header.topic:.260}] not exist, apply first please!")
    if not config.perm & _READ:
        raise Rejected(ResponseCode.NO_PERMISSION, f"the topic[{header.topic}] pulling message is forbidden")
    # A queue beyond the settings may hold messages from before they were changed.
    is_there = 0 <= header.queue_id < config.read_queue_count
    if not is_there and not tables.store.max_offset(header.topic, header.queue_id):
        raise Rejected(
            ResponseCode.INVALID_PARAMETER,
            f"queueId[{header.queue_id}] is illegal, topic:[{header.topic}] "
            f"topicConfig.readQueueNums:[{config.read_queue_count}] consumer:[{header.consumer_group}]",
        )


def _selection_of(tables: PullTables, header: PullMessage, group: GroupConfig, now_ms: int) -> Selection:
    """Return what passes the filter of the request itself, or of what the group's heartbeats said."""
    consumers = tables.members.find(header.consumer_group)
    if header.sys_flag & PullSysFlag.SUBSCRIPTION:
        selection = tables.filters.of_request(header.subscription, header.expression_type, now_ms)
        known = {} if consumers is None else consumers.subscriptions
        return tables.filters.of_retries(selection, header.topic, known, now_ms)
    if consumers is None:
        raise Rejected(
            ResponseCode.SUBSCRIPTION_NOT_EXIST, f"the consumer's group info not exist, {header.consumer_group}"
        )
    if tables.groups.configs.is_forbidden(header.consumer_group, header.topic):
        raise Rejected(
            ResponseCode.NO_PERMISSION,
            f"the consumer group[{header.consumer_group}] is forbidden for topic[{header.topic}]",
        )
    selection = tables.filters.of_subscription(_subscription_of(consumers, header, group), now_ms)
    return tables.filters.of_retries(selection, header.topic, consumers.subscriptions, now_ms)


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
