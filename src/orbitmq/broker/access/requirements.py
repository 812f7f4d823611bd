"""The requirements of requests: which actions on which resources each request code asks for. Pure.

Most is what Java asks for. Where Java lets every user that signs pass (settings, files, slaves' copies, reply messages, assignments,
batches of acks), a broker of ours asks for the resource that the request is about, or for the cluster. And where a request
names a message by its place in the log, its own topic counts, too: Java believes the topic that the request names, or none.
A code that is not in this table is for super users alone.

Source: Java DefaultAuthorizationContextBuilder, and the annotations RocketMQAction and RocketMQResource of request headers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from orbitmq.codes import RequestCode
from orbitmq.errors import OrbitError
from orbitmq.model.access import Action, Need, Resource, ResourceType, group_resource, topic_resource
from orbitmq.model.topic import RETRY_PREFIX
from orbitmq.wire.bodies.document import DOCUMENT_SIZE_MAX, parse_body
from orbitmq.wire.bodies.groups import decode_group_config
from orbitmq.wire.bodies.heartbeat import decode_heartbeat, decode_queue_lock, decode_subscription_check
from orbitmq.wire.header import parse_int64
from orbitmq.wire.messages.message_id import parse_offset_message_id
from orbitmq.wire.pop.assignments import decode_assignment_query, decode_request_mode
from orbitmq.wire.pop.batch_acks import decode_batch_acks

TopicAt = Callable[[int], str | None]
"""Returns the topic that the message at an offset of the log was sent to; None when there is no message."""


class RequestView(NamedTuple):
    """A request as far as its requirements need it."""

    fields: Mapping[str, str]
    body: bytes
    cluster: str
    topic_at: TopicAt


Requirement = Callable[[RequestView], Iterable[Need]]

_PUB, _SUB, _GET, _UPDATE = (Action.PUB,), (Action.SUB,), (Action.GET,), (Action.UPDATE,)
_CREATE, _DELETE = (Action.CREATE,), (Action.DELETE,)
_READ = (Action.SUB, Action.GET)
_LIST = (Action.GET, Action.LIST)
_MAKE = (Action.CREATE, Action.UPDATE)


def requirements_of(code: int, asking: RequestView) -> tuple[Need, ...] | None:
    """Return what a user has to be allowed for a request, all of it; None when the request is for super users alone.

    Raises:
        OrbitError: the body, or a field, that says it cannot be read.
    """
    requirement = REQUIREMENTS.get(code)
    return None if requirement is None else tuple(requirement(asking))


def _topic(field: str, actions: tuple[Action, ...], *, is_optional: bool = False) -> Requirement:
    def needs(asking: RequestView) -> Iterator[Need]:
        name = asking.fields.get(field)
        if name is not None or not is_optional:
            yield Need(topic_resource(name), actions)

    return needs


def _group(field: str, actions: tuple[Action, ...], *, is_optional: bool = False) -> Requirement:
    def needs(asking: RequestView) -> Iterator[Need]:
        name = asking.fields.get(field)
        if name is not None or not is_optional:
            yield Need(group_resource(name), actions)

    return needs


def _each(field: str, separator: str, resource: Callable[[str], Resource], actions: tuple[Action, ...]) -> Requirement:
    def needs(asking: RequestView) -> Iterator[Need]:
        for name in filter(None, asking.fields.get(field, "").split(separator)):
            yield Need(resource(name), actions)

    return needs


def _cluster(actions: tuple[Action, ...]) -> Requirement:
    def needs(asking: RequestView) -> Iterator[Need]:
        yield Need(Resource(ResourceType.CLUSTER, asking.cluster), actions)

    return needs


def _all(*requirements: Requirement) -> Requirement:
    def needs(asking: RequestView) -> Iterator[Need]:
        for requirement in requirements:
            yield from requirement(asking)

    return needs


def _send(field: str) -> Requirement:
    """Return what a send needs: a consumer that stores a retry itself acts for its group."""

    def needs(asking: RequestView) -> Iterator[Need]:
        name = asking.fields.get(field)
        yield Need(topic_resource(name), _SUB if name is not None and name.startswith(RETRY_PREFIX) else _PUB)

    return needs


def _message_at(field: str, actions: tuple[Action, ...]) -> Requirement:
    """Return what it needs to do something with the message at an offset of the log."""

    def needs(asking: RequestView) -> Iterator[Need]:
        try:
            physical_offset = parse_int64(asking.fields.get(field, ""))  # read as the header will be
        except ValueError:
            return
        topic = asking.topic_at(physical_offset)
        if topic is not None:
            yield Need(topic_resource(topic), actions)

    return needs


def _message_of_id(field: str, actions: tuple[Action, ...]) -> Requirement:
    """The same for a message that is named by its broker's id."""

    def needs(asking: RequestView) -> Iterator[Need]:
        try:
            _, physical_offset = parse_offset_message_id(asking.fields.get(field, ""))
        except OrbitError:
            return
        topic = asking.topic_at(physical_offset)
        if topic is not None:
            yield Need(topic_resource(topic), actions)

    return needs


def _heartbeat(asking: RequestView) -> Iterator[Need]:
    for consumer in decode_heartbeat(asking.body).consumers:
        yield Need(group_resource(consumer.group), _SUB)
        for subscription in consumer.subscriptions:
            yield Need(topic_resource(subscription.topic), _SUB)


def _queue_lock(asking: RequestView) -> Iterator[Need]:
    lock = decode_queue_lock(asking.body)
    yield Need(group_resource(lock.group), _SUB)
    for topic in {queue.topic for queue in lock.queues}:
        yield Need(topic_resource(topic), _SUB)


def _subscription_check(asking: RequestView) -> Iterator[Need]:
    check = decode_subscription_check(asking.body)
    yield Need(group_resource(check.group), _SUB)
    yield Need(topic_resource(check.subscription.topic), _SUB)


def _assignment(asking: RequestView) -> Iterator[Need]:
    query = decode_assignment_query(asking.body)
    yield Need(group_resource(query.group), _SUB)
    yield Need(topic_resource(query.topic), _SUB)


def _request_mode(asking: RequestView) -> Iterator[Need]:
    mode = decode_request_mode(asking.body)
    yield Need(group_resource(mode.group), _MAKE)
    yield Need(topic_resource(mode.topic), _MAKE)


def _batch_ack(asking: RequestView) -> Iterator[Need]:
    for group, topic in {(ack.group, ack.topic) for ack in decode_batch_acks(asking.body).acks()}:
        yield Need(group_resource(group), _SUB)
        yield Need(topic_resource(topic), _SUB)


def _group_config(asking: RequestView) -> Iterator[Need]:
    yield Need(group_resource(decode_group_config(asking.body).group), _MAKE)


def _listed(key: str, name: str, resource: Callable[[str], Resource], actions: tuple[Action, ...]) -> Requirement:
    def needs(asking: RequestView) -> Iterator[Need]:
        def names(document: dict[str, Any]) -> list[str]:
            return [_name(entry, name) for entry in document[key]]

        # As their handlers parse them: no more than is quickly done, for every signed request comes so far.
        for found in parse_body("list", asking.body, names, size_max=DOCUMENT_SIZE_MAX):
            yield Need(resource(found), actions)

    return needs


def _name(document: dict[str, Any], key: str) -> str:
    value = document[key]
    if not isinstance(value, str):
        raise TypeError(f"{key} is {value!r:.80}, expected text")
    return value


_PULL = _all(_topic("topic", _SUB), _group("consumerGroup", _SUB))
_POP = _all(_group("consumerGroup", _SUB), _topic("topic", _SUB))
_OBSERVE, _GOVERN, _SURVEY = _cluster(_GET), _cluster(_UPDATE), _cluster(_LIST)

_BY_JAVA: dict[int, Requirement] = {
    RequestCode.SEND_MESSAGE: _send("topic"),
    RequestCode.SEND_MESSAGE_V2: _send("b"),
    RequestCode.SEND_BATCH_MESSAGE: _send("b"),
    RequestCode.RECALL_MESSAGE: _topic("topic", _PUB),
    RequestCode.END_TRANSACTION: _all(_topic("topic", _PUB, is_optional=True), _message_at("commitLogOffset", _PUB)),
    RequestCode.CONSUMER_SEND_MSG_BACK: _all(_group("group", _SUB), _message_at("offset", _SUB)),
    RequestCode.PULL_MESSAGE: _PULL,
    RequestCode.QUERY_MESSAGE: _topic("topic", _READ),
    RequestCode.HEART_BEAT: _heartbeat,
    RequestCode.UNREGISTER_CLIENT: _group("consumerGroup", _SUB, is_optional=True),
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: _group("consumerGroup", _READ),
    RequestCode.QUERY_CONSUMER_OFFSET: _all(_topic("topic", _READ), _group("consumerGroup", _READ)),
    RequestCode.UPDATE_CONSUMER_OFFSET: _all(
        _topic("topic", (Action.SUB, Action.UPDATE)), _group("consumerGroup", (Action.SUB, Action.UPDATE))
    ),
    RequestCode.LOCK_BATCH_MQ: _queue_lock,
    RequestCode.UNLOCK_BATCH_MQ: _queue_lock,
    RequestCode.UPDATE_AND_CREATE_TOPIC: _topic("topic", _CREATE),
    RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC: _topic("topic", _CREATE),
    RequestCode.DELETE_TOPIC_IN_BROKER: _topic("topic", _DELETE),
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: _topic("topic", _GET),
    RequestCode.GET_MAX_OFFSET: _topic("topic", _GET),
    RequestCode.GET_MIN_OFFSET: _topic("topic", _GET),
    RequestCode.GET_EARLIEST_MSG_STORETIME: _topic("topic", _GET),
    RequestCode.VIEW_MESSAGE_BY_ID: _all(_topic("topic", _GET, is_optional=True), _message_at("offset", _GET)),
    RequestCode.GET_TOPIC_STATS_INFO: _topic("topic", _GET),
    RequestCode.GET_CONSUMER_CONNECTION_LIST: _group("consumerGroup", _GET),
    RequestCode.GET_PRODUCER_CONNECTION_LIST: _OBSERVE,
    RequestCode.DELETE_SUBSCRIPTIONGROUP: _group("groupName", _DELETE),
    RequestCode.GET_CONSUME_STATS: _all(
        _group("consumerGroup", _GET),
        _topic("topic", _GET, is_optional=True),
        _each("topicList", ";", topic_resource, _GET),
    ),
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: _all(_group("group", _UPDATE), _topic("topic", _UPDATE)),
    223: _all(_topic("topic", _GET), _group("group", _GET)),
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: _topic("topic", _GET),
    RequestCode.QUERY_CONSUME_TIME_SPAN: _all(_topic("topic", _GET), _group("group", _GET)),
    RequestCode.GET_CONSUMER_RUNNING_INFO: _group("consumerGroup", _GET),
    308: _all(_each("filterGroups", ",", group_resource, _GET), _group("compareGroup", _GET), _topic("topic", _GET)),
    RequestCode.CONSUME_MESSAGE_DIRECTLY: _all(
        _group("consumerGroup", _SUB), _topic("topic", _SUB, is_optional=True), _message_of_id("msgId", _SUB)
    ),
    314: _all(_group("srcGroup", _GET), _group("destGroup", _UPDATE), _topic("topic", _UPDATE, is_optional=True)),
    315: _OBSERVE,
    317: _OBSERVE,
    RequestCode.QUERY_CONSUME_QUEUE: _all(_topic("topic", _GET), _group("consumerGroup", _GET, is_optional=True)),
    RequestCode.RESUME_CHECK_HALF_MESSAGE: _all(
        _topic("topic", _UPDATE, is_optional=True), _message_of_id("msgId", _UPDATE)
    ),
    328: _OBSERVE,
    343: _group("group", _GET),
    345: _all(_group("group", _GET), _topic("topic", _GET, is_optional=True)),
    RequestCode.GET_TOPIC_CONFIG: _topic("topic", _GET),
    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: _group("group", _GET),
    353: _all(_group("group", _UPDATE), _topic("topic", _UPDATE)),
    354: _topic("topic", _GET),
    355: _OBSERVE,
    RequestCode.GET_BROKER_MEMBER_GROUP: _OBSERVE,
    RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE: _GOVERN,
    906: _GOVERN,
    908: _GOVERN,
    1008: _GOVERN,
    **dict.fromkeys((3001, 3002, 3003, 3006, 3007, 3008), _GOVERN),
    **dict.fromkeys((3004, 3005, 3009, 3010), _OBSERVE),
    RequestCode.POP_MESSAGE: _POP,
    RequestCode.ACK_MESSAGE: _POP,
    RequestCode.PEEK_MESSAGE: _PULL,
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME: _POP,
    RequestCode.NOTIFICATION: _POP,
    RequestCode.POLLING_INFO: _all(_group("consumerGroup", _GET), _topic("topic", _GET)),
}
"""Requests that Java asks a rule for, too; of several, in Java's order, so that refusals name the same."""

_BY_US: dict[int, Requirement] = {
    RequestCode.SEND_REPLY_MESSAGE: _send("topic"),
    RequestCode.SEND_REPLY_MESSAGE_V2: _send("b"),
    RequestCode.LITE_PULL_MESSAGE: _PULL,
    RequestCode.CHECK_CLIENT_CONFIG: _subscription_check,
    RequestCode.QUERY_ASSIGNMENT: _assignment,
    RequestCode.SET_MESSAGE_REQUEST_MODE: _request_mode,
    RequestCode.BATCH_ACK_MESSAGE: _batch_ack,
    RequestCode.POP_ROLLBACK: _PULL,
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: _listed("topicConfigList", "topicName", topic_resource, _CREATE),
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: _group_config,
    225: _listed("groupConfigList", "groupName", group_resource, _MAKE),
    513: _topic("topic", _CREATE),
    **dict.fromkeys((21, 22, 23, 201, 305), _SURVEY),
    **dict.fromkeys((26, 28, 43, 45, 60, 61, 402, 907, 1007, 2003, RequestCode.ORBITMQ_HEALTH), _OBSERVE),
    **dict.fromkeys((25, 27, 306, 316, 329, 2001, 2002, 2004), _GOVERN),
}
"""Requests that Java lets every user pass that signs."""

REQUIREMENTS: Mapping[int, Requirement] = {**_BY_JAVA, **_BY_US}
OURS_ALONE = frozenset(_BY_US)
"""The codes that Java asks no rule for."""
