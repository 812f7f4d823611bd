"""QUERY_ASSIGNMENT (400): which queues a consumer reads, and whether it pulls or pops; the modes that were set (401, 402).

Source: Java QueryAssignmentProcessor, AdminBrokerProcessor.getAllMessageRequestMode.
"""

from __future__ import annotations

import logging

from orbitmq.broker.groups.allocation import STRATEGIES, allocate_to_pop
from orbitmq.broker.groups.topic_routes import Found
from orbitmq.broker.service import BrokerService
from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected
from orbitmq.model.group import MessageModel
from orbitmq.model.route import MessageQueue
from orbitmq.model.topic import RETRY_PREFIX
from orbitmq.net.dispatch.handlers import LATER, Call, Handlers, Later, Reply
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


handlers: Handlers[BrokerService] = Handlers()


@handlers.on(QueryAssignment, body_size_max=BODY_SIZE_MAX)
def query_assignment(broker: BrokerService, call: Call[QueryAssignment]) -> Reply | Later:
    """Answer with the queues that a consumer is to read, as soon as the topic's route is known."""
    query = decode_assignment_query(call.command.body)
    mode = broker.tables.request_modes.find(query.topic, query.group)

    def answer(queues: Found) -> None:
        found = None if queues is None else _allocate(broker, query, mode, sorted(queues))
        call.answer(Reply(body=encode_assignments(found, mode.mode)))

    if is_lmq(query.topic) and query.message_model is MessageModel.CLUSTERING:
        answer([MessageQueue(query.topic, broker.config.broker_name, LMQ_QUEUE_ID)])
    else:
        broker.clients.routes.find(query.topic, answer)
    return LATER


def _allocate(
    broker: BrokerService, query: AssignmentQuery, mode: RequestMode, queues: list[MessageQueue]
) -> list[MessageQueue] | None:
    """Return a consumer's queues; None: nothing is to change, for its group is not known or it asks for too much."""
    if query.message_model is MessageModel.BROADCASTING:
        return queues
    members = sorted(broker.clients.members.consumer_ids(query.group))
    strategy = STRATEGIES.get(query.strategy)
    if not members or strategy is None or not queues:
        return None
    if mode.mode == POP:
        return allocate_to_pop(queues, members, query.client_id, mode.share_queue_count, strategy)
    return strategy(queues, members, query.client_id) if query.client_id in members else []


@handlers.on(SetRequestMode, body_size_max=BODY_SIZE_MAX)
def set_request_mode(broker: BrokerService, call: Call[SetRequestMode]) -> Reply:
    """Let a group pull a topic's messages or pop them, from its consumers' next rebalance on."""
    mode = decode_request_mode(call.command.body)
    if mode.topic.startswith(RETRY_PREFIX):
        raise Rejected(ResponseCode.NO_PERMISSION, "retry topic is not allowed to set mode")
    if broker.tables.topics.get(mode.topic) is None:
        raise Rejected(ResponseCode.TOPIC_NOT_EXIST, f"topic[{mode.topic:.260}] not exist")
    if broker.tables.groups.find(mode.group, call.now_ms) is None:
        raise Rejected(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "subscription group does not exist")
    broker.tables.request_modes.set(mode)
    return Reply()


@handlers.on(GetAllRequestModes)
def get_all_request_modes(broker: BrokerService, call: Call[GetAllRequestModes]) -> Reply:
    """Answer with every mode that was set."""
    return Reply(body=format_request_modes(broker.tables.request_modes.all))
