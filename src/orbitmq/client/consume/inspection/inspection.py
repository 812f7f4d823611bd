"""Answers to administrators' questions, which brokers pass on: 220, 221, 307 and 309.

Source: Java ClientRemotingProcessor, MQClientInstance.resetOffset and consumerRunningInfo.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

from orbitmq.client.consume.assignment.assignment import Assignment
from orbitmq.client.consume.figures import Figures
from orbitmq.client.consume.inspection.direct import DirectConsumption
from orbitmq.client.consume.inspection.stacks import describe_stacks
from orbitmq.client.session.session import ClientSession
from orbitmq.codes import ResponseCode
from orbitmq.errors import HeaderError, Rejected
from orbitmq.model.group import Subscription
from orbitmq.model.message import PropertyName, StoredMessage
from orbitmq.net.dispatch.handlers import LATER, Call, Handlers, Later, Reply
from orbitmq.wire.bodies.consumer_info import RunningInfo, encode_direct_result, encode_running_info
from orbitmq.wire.bodies.offsets import decode_offset_table, encode_client_offsets
from orbitmq.wire.headers import ConsumeMessageDirectly, GetClientOffsets, GetRunningInfo, ResetClientOffset
from orbitmq.wire.messages.record import iter_records, to_stored_message

log = logging.getLogger(__name__)


class Inspection:
    """One consumer as its administrators see it.

    Args:
        session: has the client's id and its tasks.
        group: the consumer group.
        assignment: the queues that are read.
        subscriptions: by topic.
        direct: consumes a message on request.
        figures: sums of the work.
        properties: the consumer's settings, by Java's names.
    """

    def __init__(
        self,
        session: ClientSession,
        group: str,
        assignment: Assignment,
        subscriptions: Mapping[str, Subscription],
        *,
        direct: DirectConsumption,
        figures: Figures,
        properties: Mapping[str, str],
    ) -> None:
        self.session = session
        self.group = group
        self.assignment = assignment
        self.direct = direct
        self._subscriptions = subscriptions
        self._figures = figures
        self._properties = properties

    def running_info(self, *, with_stacks: bool) -> RunningInfo:
        """Return what the consumer says of itself."""
        now_s = asyncio.get_running_loop().time()
        session = self.session
        own = {
            "clientIP": session.ip,
            "PROP_NAMESERVER_ADDR": "".join(f"{at};" for at in session.name_servers.configured),
        }
        return RunningInfo(
            properties={**self._properties, **own},
            subscriptions=tuple(sorted(self._subscriptions.values(), key=lambda found: found.topic)),
            queues={queue: self.assignment[queue].describe() for queue in self.assignment.queues},
            figures={topic: self._figures.show(topic, now_s) for topic in self._subscriptions},
            stacks=describe_stacks() if with_stacks else None,
        )

    def check_group(self, group: str) -> None:
        """Refuse a question about another group: a broker has taken this client for somebody else."""
        if group != self.group:
            raise Rejected(ResponseCode.SYSTEM_ERROR, f"The Consumer Group <{group:.260}> not exist in this consumer")


class Inspected(Protocol):
    """A consumer that can be asked; its connections are made before its parts are."""

    _inspection: Inspection


handlers: Handlers[Any] = Handlers()


@handlers.on(ResetClientOffset)
def reset_offset(owner: Inspected, call: Call[ResetClientOffset]) -> Reply:
    """Go on where the broker says in the queues that are read here, and store that."""
    consumer = owner._inspection
    consumer.check_group(call.header.group)
    offsets = decode_offset_table(call.command.body) if call.command.body else {}
    mine = {queue: offsets[queue] for queue in consumer.assignment.queues if queue in offsets}
    log.info("group %s: set to %s", consumer.group, mine)
    for queue, offset in mine.items():
        consumer.assignment[queue].go_on_at(offset)
    consumer.session.tasks.spawn(consumer.assignment.store_offsets(), "reset offsets")
    return Reply()


@handlers.on(GetClientOffsets)
def get_offsets(owner: Inspected, call: Call[GetClientOffsets]) -> Reply:
    """Answer with how far each queue of a topic is done."""
    consumer = owner._inspection
    consumer.check_group(call.header.group)
    offsets = {
        queue: consumer.assignment[queue].describe().commit_offset
        for queue in sorted(consumer.assignment.queues)
        if queue.topic == call.header.topic
    }
    known = {queue: offset for queue, offset in offsets.items() if offset >= 0}
    return Reply(body=encode_client_offsets(known))


@handlers.on(GetRunningInfo)
def get_running_info(owner: Inspected, call: Call[GetRunningInfo]) -> Reply:
    """Answer with what the consumer does."""
    consumer = owner._inspection
    consumer.check_group(call.header.consumer_group)
    return Reply(body=encode_running_info(consumer.running_info(with_stacks=call.header.jstack_enable)))


@handlers.on(ConsumeMessageDirectly)
def consume_directly(owner: Inspected, call: Call[ConsumeMessageDirectly]) -> Later:
    """Give the handler one message, and answer with what came of it."""
    consumer = owner._inspection
    consumer.check_group(call.header.consumer_group)
    if not consumer.direct.has_handler:
        raise Rejected(
            ResponseCode.SYSTEM_ERROR,
            "this consumer has no handler: its program takes the messages in a loop of its own",
        )
    message = _message(call)

    async def work() -> None:
        call.answer(Reply(body=encode_direct_result(await consumer.direct.consume(message))))

    consumer.session.tasks.spawn(work(), "message on request")
    return LATER


def _message(call: Call[ConsumeMessageDirectly]) -> StoredMessage:
    """Return the message that a broker has sent along, under the topic that it was sent to."""
    for record in iter_records(call.command.body):
        message = to_stored_message(record, call.header.broker_name or "")
        topic = message.properties.get(PropertyName.RETRY_TOPIC)
        return replace(message, topic=topic) if topic else message
    raise HeaderError("consume a message directly: there is no message in the body")
