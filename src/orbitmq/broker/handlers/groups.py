"""Settings of consumer groups (200, 201, 207, 352)."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.broker.groups.configs import GROUP_LENGTH_MAX
from orbitmq.broker.groups.offsets import GroupOffsets
from orbitmq.broker.groups.registry import GroupRegistry
from orbitmq.broker.pop.ordering.queues import OrderedQueues
from orbitmq.codes import ResponseCode
from orbitmq.errors import InvalidArgument, Rejected
from orbitmq.model.topic import check_name
from orbitmq.net.dispatch.handlers import Call, Handlers, Reply
from orbitmq.wire.bodies.groups import decode_group_config, encode_group_config, encode_group_table
from orbitmq.wire.headers import (
    DeleteSubscriptionGroup,
    GetAllSubscriptionGroups,
    GetSubscriptionGroup,
    UpdateSubscriptionGroup,
)


@dataclass(frozen=True, slots=True)
class GroupTables:
    """What is kept of a group that has no members: its settings, its offsets, and what it popped in order."""

    groups: GroupRegistry
    offsets: GroupOffsets
    ordered: OrderedQueues


handlers: Handlers[GroupTables] = Handlers()

RETRY_QUEUES_MAX = 1_024
"""Ours: queues of a group's retry topic, which is made without asking again."""


@handlers.on(UpdateSubscriptionGroup)
def update_group(tables: GroupTables, call: Call[UpdateSubscriptionGroup]) -> Reply:
    """Create or replace a group's settings."""
    config = decode_group_config(call.command.body)
    try:
        check_name("groupName", config.group, GROUP_LENGTH_MAX)
    except InvalidArgument as error:
        raise Rejected(ResponseCode.INVALID_PARAMETER, str(error)) from None
    if not 0 <= config.retry_queue_count <= RETRY_QUEUES_MAX:
        raise Rejected(
            ResponseCode.INVALID_PARAMETER,
            f"retryQueueNums: {config.retry_queue_count} is not allowed, expected 0 to {RETRY_QUEUES_MAX}",
        )
    tables.groups.update(config, call.now_ms)
    return Reply()


@handlers.on(GetAllSubscriptionGroups)
def get_all_groups(tables: GroupTables, call: Call[GetAllSubscriptionGroups]) -> Reply:
    """Answer with every group's settings."""
    return Reply(body=encode_group_table(tables.groups.configs.table))


@handlers.on(GetSubscriptionGroup)
def get_group(tables: GroupTables, call: Call[GetSubscriptionGroup]) -> Reply:
    """Answer with one group's settings."""
    config = tables.groups.configs.get(call.header.group)
    if config is None:
        raise Rejected(
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"No group in this broker. group: {call.header.group:.260}"
        )
    return Reply(body=encode_group_config(config))


@handlers.on(DeleteSubscriptionGroup)
def delete_group(tables: GroupTables, call: Call[DeleteSubscriptionGroup]) -> Reply:
    """Forget a group's settings, and its offsets where that is asked for."""
    tables.groups.delete(call.header.group_name, call.now_ms)
    tables.ordered.forget_group(call.header.group_name)
    if call.header.clean_offset:
        tables.offsets.forget_group(call.header.group_name)
    return Reply()
