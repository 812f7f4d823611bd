"""Settings of consumer groups (200, 225, 201, 207, 352), what they may not read (353), a copy of their offsets (314)."""

from __future__ import annotations

from orbitmq.broker.groups.configs import GROUP_LENGTH_MAX
from orbitmq.broker.service import BrokerService
from orbitmq.codes import ResponseCode
from orbitmq.errors import InvalidArgument, Rejected
from orbitmq.model.topic import check_name
from orbitmq.net.dispatch.handlers import LATER, Call, Handlers, Later, Reply
from orbitmq.net.dispatch.work import in_turns, joined
from orbitmq.wire.bodies.groups import (
    GroupConfig,
    decode_group_config,
    decode_group_configs,
    encode_forbidden,
    encode_group_config,
    group_table_parts,
)
from orbitmq.wire.headers import (
    CloneGroupOffsets,
    DeleteSubscriptionGroup,
    GetAllSubscriptionGroups,
    GetSubscriptionGroup,
    UpdateForbiddenTopics,
    UpdateSubscriptionGroup,
    UpdateSubscriptionGroups,
)

handlers: Handlers[BrokerService] = Handlers()

LIST_SIZE_MAX = 1024 * 1024
"""Ours: bytes of a list of groups to be made."""
RETRY_QUEUES_MAX = 1_024
"""Ours: queues of a group's retry topic, which is made without asking again."""


@handlers.on(UpdateSubscriptionGroup)
def update_group(broker: BrokerService, call: Call[UpdateSubscriptionGroup]) -> Reply:
    """Create or replace a group's settings."""
    with broker.monitoring.group_creations.measure() as made:
        config = decode_group_config(call.command.body)
        _check_config(config)
        broker.tables.groups.update(config, call.now_ms)
        made()
    return Reply()


@handlers.on(UpdateSubscriptionGroups, body_size_max=LIST_SIZE_MAX)
def update_groups(broker: BrokerService, call: Call[UpdateSubscriptionGroups]) -> Reply:
    """Create or replace many groups' settings, all or none."""
    with broker.monitoring.group_creations.measure() as made:
        configs = decode_group_configs(call.command.body, size_max=LIST_SIZE_MAX)
        for config in configs:
            _check_config(config)
        broker.tables.groups.update_all(configs, call.now_ms)
        made()
    return Reply()


def _check_config(config: GroupConfig) -> None:
    try:
        check_name("groupName", config.group, GROUP_LENGTH_MAX)
    except InvalidArgument as error:
        raise Rejected(ResponseCode.INVALID_PARAMETER, str(error)) from None
    if not 0 <= config.retry_queue_count <= RETRY_QUEUES_MAX:
        raise Rejected(
            ResponseCode.INVALID_PARAMETER,
            f"retryQueueNums: {config.retry_queue_count} is not allowed, expected 0 to {RETRY_QUEUES_MAX}",
        )
    if attributes := config.extra.get("attributes"):
        raise Rejected(ResponseCode.SYSTEM_ERROR, f"attributes: {attributes!r:.80} is not allowed: groups have none")


@handlers.on(UpdateForbiddenTopics)
def update_forbidden_topics(broker: BrokerService, call: Call[UpdateForbiddenTopics]) -> Reply:
    """Forbid a group to read a topic, or allow it again, and answer whether it may."""
    group, topic, readable = call.header.group, call.header.topic, call.header.readable
    if readable is not None:
        try:
            check_name("group", group, GROUP_LENGTH_MAX)
            check_name("topic", topic)
        except InvalidArgument as error:
            raise Rejected(ResponseCode.INVALID_PARAMETER, str(error)) from None
        broker.tables.groups.forbid(group, topic, not readable, call.now_ms)
    return Reply(
        remark="",
        body=encode_forbidden(group, topic, readable=not broker.tables.groups.configs.is_forbidden(group, topic)),
    )


@handlers.on(CloneGroupOffsets)
def clone_group_offsets(broker: BrokerService, call: Call[CloneGroupOffsets]) -> Reply:
    """Give a group the offsets of another one, but for topics that this one no longer subscribes to.

    Without a topic: those of every topic (Java means to, and looks for a topic without a name).
    """
    header = call.header
    group, twin = header.src_group, header.dest_group
    try:
        check_name("destGroup", twin, GROUP_LENGTH_MAX)
    except InvalidArgument as error:
        raise Rejected(ResponseCode.INVALID_PARAMETER, str(error)) from None
    consumers = broker.clients.members.find(group)
    subscribed = None if header.offline or consumers is None else consumers.subscriptions
    for topic in [header.topic] if header.topic else broker.tables.offsets.topics_of(group):
        if broker.tables.topics.get(topic) is not None and (not subscribed or topic in subscribed):
            broker.tables.offsets.clone(group, twin, topic)
    return Reply()


@handlers.on(GetAllSubscriptionGroups)
def get_all_groups(broker: BrokerService, call: Call[GetAllSubscriptionGroups]) -> Reply | Later:
    """Answer with every group's settings, as they are now."""
    table = broker.tables.groups.configs.table
    return in_turns(call, joined(group_table_parts(table._replace(groups=dict(table.groups)))))


@handlers.on(GetSubscriptionGroup)
def get_group(broker: BrokerService, call: Call[GetSubscriptionGroup]) -> Reply | Later:
    """Answer with one group's settings. A new group is made first, where groups are made by asking (Java: the same)."""
    group, configs = call.header.group, broker.tables.groups.configs
    if (config := configs.get(group)) is not None:
        return Reply(body=encode_group_config(config))

    def admitted(refusal: Rejected | None) -> None:
        if refusal is not None:
            remark = f"No group in this broker. group: {group:.260}"
            return call.answer(Reply(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark=remark))
        # Where the disk does not take it, it has what every new group has.
        return call.answer(Reply(body=encode_group_config(configs.get(group) or GroupConfig(group=group))))

    broker.tables.auto_creation.admit(call.connection, [group], call.now_ms, admitted, needs_retries=False)
    return LATER


@handlers.on(DeleteSubscriptionGroup)
def delete_group(broker: BrokerService, call: Call[DeleteSubscriptionGroup]) -> Reply:
    """Forget a group's settings, and its offsets where that is asked for."""
    broker.tables.groups.delete(call.header.group_name, call.now_ms)
    broker.delivery.pop.ordered.forget_group(call.header.group_name)
    if call.header.clean_offset:
        broker.tables.offsets.forget_group(call.header.group_name)
    broker.monitoring.stats.forget_group(call.header.group_name)
    return Reply()
