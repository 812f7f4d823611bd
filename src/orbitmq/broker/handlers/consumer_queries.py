"""Questions that are passed on to consumers (307, 309, 223), and the answers that come back.

Source: Java AdminBrokerProcessor.callConsumer, Broker2Client.getConsumeStatus.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from orbitmq.broker.groups.consumer_queries import Answers
from orbitmq.broker.service import BrokerService
from orbitmq.codes import ResponseCode
from orbitmq.errors import InvalidArgument, OrbitError, Rejected
from orbitmq.net.dispatch.handlers import LATER, Call, Handlers, Later
from orbitmq.net.dispatch.reply import Reply
from orbitmq.net.session import make_request
from orbitmq.wire.bodies.offsets import (
    CLIENT_BODY_SIZE_MAX,
    Offsets,
    decode_client_offsets,
    encode_clients_offsets,
)
from orbitmq.wire.command import Command
from orbitmq.wire.headers import ConsumeMessageDirectly, GetClientOffsets, GetClientsOffsets, GetRunningInfo
from orbitmq.wire.messages.message_id import parse_offset_message_id

log = logging.getLogger(__name__)


handlers: Handlers[BrokerService] = Handlers()


@handlers.on(GetRunningInfo)
def get_running_info(broker: BrokerService, call: Call[GetRunningInfo]) -> Later:
    """Ask one consumer what it does."""
    header = call.header
    # Encoded again: the administrator's signature must not reach the consumer.
    broker.clients.queries.ask(header.consumer_group, header.client_id, make_request(header), call.answer)
    return LATER


@handlers.on(ConsumeMessageDirectly)
def consume_message_directly(broker: BrokerService, call: Call[ConsumeMessageDirectly]) -> Later:
    """Give one consumer one message of this broker, whatever its group's offset is."""
    header = call.header
    topic = broker.tables.topics.get(header.topic) if header.topic else None
    group = broker.tables.groups.configs.get(header.consumer_group)
    passed_on = replace(
        header,
        broker_name=broker.config.broker_name,
        topic_sys_flag=None if topic is None else topic.topic_sys_flag,
        group_sys_flag=None if group is None else group.group_sys_flag,
    )
    asked = make_request(passed_on, _record(broker, header))
    broker.clients.queries.ask(header.consumer_group, header.client_id, asked, call.answer)
    return LATER


def _record(broker: BrokerService, header: ConsumeMessageDirectly) -> bytes:
    """Return the message as it is stored.

    Raises:
        Rejected: 1, the id is none of a message that is here.
    """
    try:
        _, physical_offset = parse_offset_message_id(header.message_id or "")
    except InvalidArgument as error:
        raise Rejected(ResponseCode.SYSTEM_ERROR, str(error)) from None
    record = broker.store.record_at(physical_offset)
    if record is None:
        raise Rejected(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {physical_offset}")
    return record


@handlers.on(GetClientsOffsets)
def get_clients_offsets(broker: BrokerService, call: Call[GetClientsOffsets]) -> Later:
    """Ask the consumers of a group how far they are in a topic."""
    header = call.header
    asked = make_request(GetClientOffsets(topic=header.topic, group=header.group))

    def answered(answers: Answers) -> None:
        offsets = {
            client_id: found
            for client_id, answer in answers.items()
            if (found := _offsets(client_id, answer)) is not None
        }
        call.answer(Reply(body=encode_clients_offsets(offsets)))

    broker.clients.queries.ask_all(header.group, header.client_id, asked, answered)
    return LATER


def _offsets(client_id: str, answer: Command) -> Offsets | None:
    """Return where a client is; None when its answer cannot be read: the others' answers are answers all the same."""
    if len(answer.body) > CLIENT_BODY_SIZE_MAX:
        log.warning(
            "client %s: %d bytes of offsets, at most %d are read", client_id, len(answer.body), CLIENT_BODY_SIZE_MAX
        )
        return None
    try:
        return decode_client_offsets(answer.body) if answer.body else None
    except OrbitError as error:
        log.warning("client %s: %s", client_id, error)
        return None
