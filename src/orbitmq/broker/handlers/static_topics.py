"""Making and changing static topics (513).

Source: Java AdminBrokerProcessor.updateAndCreateStaticTopic, which takes any mapping of any topic here.
"""

from __future__ import annotations

from dataclasses import replace

from orbitmq.broker.handlers.topics import wanted_config
from orbitmq.broker.service import BrokerService
from orbitmq.broker.topics.system_topics import is_system_topic
from orbitmq.broker.topics.table import check_topic_name
from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected
from orbitmq.model.static_topic import QueueMapping
from orbitmq.net.dispatch.handlers import LATER, Call, Handlers, Later, Reply
from orbitmq.wire.bodies.document import DOCUMENT_SIZE_MAX
from orbitmq.wire.bodies.static_topics import decode_mapping
from orbitmq.wire.headers import CreateStaticTopic

handlers: Handlers[BrokerService] = Handlers()


@handlers.on(CreateStaticTopic, body_size_max=DOCUMENT_SIZE_MAX)
def create_static_topic(broker: BrokerService, call: Call[CreateStaticTopic]) -> Reply | Later:
    """Create or change a static topic; the answer comes when the NameServers know which queues this broker leads."""
    header = call.header
    check_topic_name(header.topic)
    if is_system_topic(header.topic):
        raise Rejected(ResponseCode.INVALID_PARAMETER, f"The topic[{header.topic}] is conflict with system topic.")
    mapping = decode_mapping(call.command.body, size_max=DOCUMENT_SIZE_MAX)
    _check_is_meant(mapping, header.topic, broker.tables.topics.static.broker_name)
    config = replace(wanted_config(header), order=False)  # as in Java, whose static topics have none
    broker.tables.topics.update_static(
        config, mapping, call.now_ms, lambda: call.answer(Reply()), is_forced=bool(header.force)
    )
    broker.delivery.pulls.end_waits(header.topic)
    return LATER


def _check_is_meant(mapping: QueueMapping, topic: str, broker_name: str) -> None:
    for name, found, expected in (("topic", mapping.topic, topic), ("bname", mapping.broker_name, broker_name)):
        if found != expected:
            raise Rejected(
                ResponseCode.INVALID_PARAMETER, f"the mapping's {name} is {found!r:.140}, expected {expected}"
            )
