"""QUERY_ASSIGNMENT (400): which queues a consumer reads, and whether it pulls or pops; the modes that were set (401, 402).

Source: Java QueryAssignmentProcessor, AdminBrokerProcessor.getAllMessageRequestMode.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from orbitmq.broker.groups.allocation import STRATEGIES, allocate_to_pop
from orbitmq.broker.groups.members import GroupMembers
from orbitmq.broker.groups.registry import GroupRegistry
from orbitmq.broker.groups.request_modes import RequestModes
from orbitmq.broker.groups.topic_routes import Found, RouteLookup
from orbitmq.broker.topics.registry import TopicRegistry
from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected
from orbitmq.model.group import MessageModel
from orbitmq.model.route import MessageQueue
from orbitmq.model.topic import RETRY_PREFIX
from orbitmq.net.dispatch.handlers import LATER, Call, Handlers, Later, Reply
from orbitmq.net.dispatch.peer import Peer
from orbitmq.store.lmq import LMQ_QUEUE_ID, is_lmq
from orbitmq.wire.headers import GetAllRequestModes, QueryAssignment, SetRequestMode
from orbitmq.wire.pop.assignments import (
    BODY_SIZE_MAX,
    POP,
    AssignmentQuery,
    RequestMode,
    decode_assignment_query,
    decode_request_mode,
    encode_assignments,
    format_request_modes,
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentTables:
    """What assignments are computed from.

    Args:
        broker_name: this broker's: an LMQ is here, and in no route.
    """

    modes: RequestModes
    routes: RouteLookup
    members: GroupMembers[Peer]
    topics: TopicRegistry
    groups: GroupRegistry
    broker_name: str = ""


handlers: Handlers[AssignmentTables] = Handlers()


@handlers.on(QueryAssignment, body_size_max=BODY_SIZE_MAX)
def query_assignment(tables: AssignmentTables, call: Call[QueryAssignment]) -> Reply | Later:
    """Answer with the queues that a consumer is to read, as soon as the topic's route is known."""
    query = decode_assignment_query(call.command.body)
    mode = tables.modes.find(query.topic, query.group)

    def answer(queues: Found) -> None:
        found = None if queues is None else _allocate(tables, query, mode, sorted(queues))
        call.answer(Reply(body=encode_assignments(found, mode.mode)))

    if is_lmq(query.topic) and query.message_model is MessageModel.CLUSTERING:
        answer([MessageQueue(query.topic, tables.broker_name, LMQ_QUEUE_ID)])
    else:
        tables.routes.find(query.topic, answer)
    return LATER


def _allocate(
    tables: AssignmentTables, query: AssignmentQuery, mode: RequestMode, queues: list[MessageQueue]
) -> list[MessageQueue] | None:
    """Return a consumer's queues; None: nothing is to change, for its group is not known or it asks for too much."""
    if query.message_model is MessageModel.BROADCASTING:
        return queues
    members = sorted(tables.members.consumer_ids(query.group))
    strategy = STRATEGIES.get(query.strategy)
    if not members or strategy is None or not queues:
        return None
    if mode.mode == POP:
        return allocate_to_pop(queues, members, query.client_id, mode.share_queue_count, strategy)
    return strategy(queues, members, query.client_id) if query.client_id in members else []


@handlers.on(SetRequestMode, body_size_max=BODY_SIZE_MAX)
def set_request_mode(tables: AssignmentTables, call: Call[SetRequestMode]) -> Reply:
    """Let a group pull a topic's messages or pop them, from its consumers' next rebalance on."""
    mode = decode_request_mode(call.command.body)
    if mode.topic.startswith(RETRY_PREFIX):
        raise Rejected(ResponseCode.NO_PERMISSION, "retry topic is not allowed to set mode")
    if tables.topics.get(mode.topic) is None:
        raise Rejected(ResponseCode.TOPIC_NOT_EXIST, f"topic[{mode.topic:.260}] not exist")
    if tables.groups.find(mode.group, call.now_ms) is None:
        raise Rejected(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "subscription group does not exist")
    tables.modes.set(mode)
    return Reply()


@handlers.on(GetAllRequestModes)
def get_all_request_modes(tables: AssignmentTables, call: Call[GetAllRequestModes]) -> Reply:
    """Answer with every mode that was set."""
    return Reply(body=format_request_modes(tables.modes.all))
