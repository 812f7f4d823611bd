"""Settings of consumer groups, their connections, and which groups read a topic.

Source: Java SubscriptionGroupConfig, SubscriptionGroupWrapper, ConsumerConnection, ProducerConnection, GroupList.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import orjson

from orbitmq.model.group import ConsumeFrom, ConsumerInfo, ConsumeType, MessageModel, Subscription
from orbitmq.model.topic import DataVersion
from orbitmq.wire.bodies.document import (
    DOCUMENT_SIZE_MAX,
    boolean,
    check_int32,
    items,
    number,
    parse_body,
    table_parts,
    text,
)
from orbitmq.wire.bodies.heartbeat import parse_subscription, subscription_document
from orbitmq.wire.bodies.registration import data_version_document, parse_data_version


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """One consumer group's settings (Java: SubscriptionGroupConfig).

    `extra` is what a newer Java broker wrote besides these; kept as it is, so that a file survives us.
    """

    group: str
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_message_orderly: bool = False
    retry_queue_count: int = 1
    retry_times_max: int = 16
    broker_id: int = 0
    which_broker_when_consume_slowly: int = 1
    notify_consumer_ids_changed_enable: bool = True
    group_sys_flag: int = 0
    consume_timeout_minutes: int = 15
    extra: Mapping[str, Any] = field(default_factory=dict)


class GroupTable(NamedTuple):
    """A broker's group settings and their version; the content of subscriptionGroup.json too."""

    data_version: DataVersion
    groups: Mapping[str, GroupConfig]
    forbidden: Mapping[str, Mapping[str, int]]


_NUMBERS = {
    "retryQueueNums": "retry_queue_count",
    "retryMaxTimes": "retry_times_max",
    "brokerId": "broker_id",
    "whichBrokerWhenConsumeSlowly": "which_broker_when_consume_slowly",
    "groupSysFlag": "group_sys_flag",
    "consumeTimeoutMinute": "consume_timeout_minutes",
}
_BOOLEANS = {
    "consumeEnable": "consume_enable",
    "consumeFromMinEnable": "consume_from_min_enable",
    "consumeBroadcastEnable": "consume_broadcast_enable",
    "consumeMessageOrderly": "consume_message_orderly",
    "notifyConsumerIdsChangedEnable": "notify_consumer_ids_changed_enable",
}
_PLAIN = _NUMBERS | _BOOLEANS
_POLICY_FIELDS = ("type", "exponentialRetryPolicy", "customizedRetryPolicy")
_POLICY_TYPES = ("CUSTOMIZED", "EXPONENTIAL")
"""Source: Java GroupRetryPolicy, GroupRetryPolicyType."""


def encode_group_config(config: GroupConfig) -> bytes:
    """Encode one group's settings (200, 352)."""
    return orjson.dumps(group_document(config))


def decode_group_config(body: bytes) -> GroupConfig:
    """Decode one group's settings.

    Raises:
        HeaderError: the body is not a group configuration.
    """
    return parse_body("group configuration", body, _parse_new_group, size_max=DOCUMENT_SIZE_MAX)


def decode_group_configs(body: bytes, *, size_max: int = 0) -> tuple[GroupConfig, ...]:
    """Decode many groups' settings (225).

    Raises:
        HeaderError: the body is no such list, or larger than `size_max`.
    """
    return parse_body(
        "group configurations",
        body,
        lambda document: tuple(map(_parse_new_group, items(document["groupConfigList"]))),
        size_max=size_max,
    )


def group_table_parts(table: GroupTable, *, pretty: bool = False) -> Iterator[bytes]:
    """Encode all groups' settings in parts, for GET_ALL_SUBSCRIPTIONGROUP_CONFIG or for the file (pretty)."""
    document = {
        "dataVersion": data_version_document(table.data_version),
        "forbiddenTable": {group: dict(topics) for group, topics in table.forbidden.items()},
    }
    groups = ((name, group_document(config)) for name, config in table.groups.items())
    return table_parts(document, "subscriptionGroupTable", groups, pretty=pretty)


def encode_group_table(table: GroupTable) -> bytes:
    """Encode all groups' settings."""
    return b"".join(group_table_parts(table))


def decode_group_table(body: bytes) -> GroupTable:
    """Decode all groups' settings."""
    return parse_body("group table", body, _parse_table)


def group_document(config: GroupConfig) -> dict[str, Any]:
    """Return the JSON object of a GroupConfig."""
    document: dict[str, Any] = {
        "attributes": {},
        "groupRetryPolicy": {"type": "CUSTOMIZED"},
        **config.extra,
        "groupName": config.group,
    }
    for key, name in _PLAIN.items():
        document[key] = getattr(config, name)
    return document


def parse_group(document: Mapping[str, Any]) -> GroupConfig:
    """Build a GroupConfig from its JSON object; missing fields have Java's constructor defaults."""
    known: dict[str, Any] = {"group": text(document["groupName"])}
    extra = {}
    for key, value in document.items():
        if key in _NUMBERS:
            known[_NUMBERS[key]] = number(value)
        elif key in _BOOLEANS:
            known[_BOOLEANS[key]] = boolean(value)
        elif key != "groupName":
            extra[key] = value
    return GroupConfig(**known, extra=extra)


def _parse_new_group(document: Mapping[str, Any]) -> GroupConfig:
    """Build what a request asks for: of what is kept as it came, too, Java's fields are of Java's kinds."""
    config = parse_group(document)
    check_int32([getattr(config, name) for key, name in _NUMBERS.items() if key != "brokerId"])
    extra = dict(config.extra)
    if (attributes := extra.pop("attributes", None)) is not None:
        extra["attributes"] = _object(attributes)
    if (policy := extra.get("groupRetryPolicy")) is not None:
        extra["groupRetryPolicy"] = _retry_policy(policy)
    if (subscriptions := extra.get("subscriptionDataSet")) is not None:
        for subscription in items(subscriptions):
            _object(subscription)
    return replace(config, extra=extra)


def _retry_policy(value: Any) -> dict[str, Any]:
    policy = {"type": "CUSTOMIZED"} | {name: part for name, part in _object(value).items() if name in _POLICY_FIELDS}
    if policy["type"] not in _POLICY_TYPES:
        raise ValueError(f"groupRetryPolicy is of type {policy['type']!r:.80}, expected {' or '.join(_POLICY_TYPES)}")
    return policy


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"an object is expected, not {value!r:.80}")
    return value


class ClientConnection(NamedTuple):
    """One client of a group, as administrators see it."""

    client_id: str
    address: str
    language: str
    version: int


def encode_consumer_connections(clients: Iterable[ClientConnection], group: ConsumerInfo) -> bytes:
    """Encode the answer to GET_CONSUMER_CONNECTION_LIST."""
    return orjson.dumps(
        {
            "connectionSet": [_connection_document(client) for client in clients],
            "consumeFromWhere": group.consume_from,
            "consumeType": group.consume_type,
            "messageModel": group.message_model,
            "subscriptionTable": {found.topic: subscription_document(found) for found in group.subscriptions},
        }
    )


def decode_consumer_connections(body: bytes, group: str) -> tuple[tuple[ClientConnection, ...], ConsumerInfo]:
    """Decode the answer to GET_CONSUMER_CONNECTION_LIST: a group's clients, and what they say of it.

    Raises:
        HeaderError: the body is no such answer.
    """

    def parse(document: dict[str, Any]) -> tuple[tuple[ClientConnection, ...], ConsumerInfo]:
        subscriptions = (document.get("subscriptionTable") or {}).values()
        info = ConsumerInfo(
            group=group,
            consume_type=ConsumeType(document.get("consumeType") or ConsumeType.PUSH),
            message_model=MessageModel(document.get("messageModel") or MessageModel.CLUSTERING),
            consume_from=ConsumeFrom(document.get("consumeFromWhere") or ConsumeFrom.LAST),
            subscriptions=tuple(map(parse_subscription, subscriptions)),
        )
        return tuple(map(_parse_connection, document.get("connectionSet") or ())), info

    return parse_body("consumer connections", body, parse)


def encode_producer_connections(clients: Iterable[ClientConnection]) -> bytes:
    """Encode the answer to GET_PRODUCER_CONNECTION_LIST."""
    return orjson.dumps({"connectionSet": [_connection_document(client) for client in clients]})


def decode_producer_connections(body: bytes) -> tuple[ClientConnection, ...]:
    """Decode the answer to GET_PRODUCER_CONNECTION_LIST.

    Raises:
        HeaderError: the body is no such answer.
    """
    return parse_body(
        "producer connections",
        body,
        lambda document: tuple(map(_parse_connection, document.get("connectionSet") or ())),
    )


def encode_group_list(groups: Iterable[str]) -> bytes:
    """Encode the answer to QUERY_TOPIC_CONSUME_BY_WHO."""
    return orjson.dumps({"groupList": list(groups)})


def decode_group_list(body: bytes) -> tuple[str, ...]:
    """Decode the answer to QUERY_TOPIC_CONSUME_BY_WHO."""
    return parse_body("group list", body, lambda document: tuple(map(text, document.get("groupList") or ())))


class ProducerInfo(NamedTuple):
    """One producer of any group, and its last heartbeat."""

    client_id: str
    address: str
    language: str
    version: int
    seen_at_ms: int


def encode_producer_table(producers: Mapping[str, Iterable[ProducerInfo]]) -> bytes:
    """Encode the answer to GET_ALL_PRODUCER_INFO: the producers by group."""
    return orjson.dumps(
        {"data": {group: [_producer_document(found) for found in infos] for group, infos in producers.items()}}
    )


def decode_producer_table(body: bytes) -> dict[str, tuple[ProducerInfo, ...]]:
    """Decode the answer to GET_ALL_PRODUCER_INFO.

    Raises:
        HeaderError: the body is no such answer.
    """
    return parse_body(
        "producers",
        body,
        lambda document: {
            text(group): tuple(map(_parse_producer, infos)) for group, infos in (document.get("data") or {}).items()
        },
    )


def _parse_producer(document: dict[str, Any]) -> ProducerInfo:
    return ProducerInfo(
        text(document["clientId"]),
        text(document.get("remoteIP") or "").rpartition("/")[2],
        text(document.get("language") or ""),
        number(document.get("version") or 0),
        number(document.get("lastUpdateTimestamp") or 0),
    )


def encode_group_subscription(group: str, topic: str | None, subscription: Subscription | None) -> bytes:
    """Encode the answer to QUERY_SUBSCRIPTION_BY_CONSUMER; None: the group is not online, or reads no such topic."""
    document: dict[str, Any] = {"group": group}
    if subscription is not None:
        document["subscriptionData"] = subscription_document(subscription)
    if topic is not None:
        document["topic"] = topic
    return orjson.dumps(document)


def encode_forbidden(group: str, topic: str, *, readable: bool) -> bytes:
    """Encode the answer to UPDATE_AND_GET_GROUP_FORBIDDEN."""
    return orjson.dumps({"group": group, "readable": readable, "topic": topic})


def _producer_document(producer: ProducerInfo) -> dict[str, Any]:
    return {
        "clientId": producer.client_id,
        "language": producer.language,
        "lastUpdateTimestamp": producer.seen_at_ms,
        "remoteIP": f"/{producer.address}",  # as Java writes an address
        "version": producer.version,
    }


def _connection_document(client: ClientConnection) -> dict[str, Any]:
    return {
        "clientAddr": client.address,
        "clientId": client.client_id,
        "language": client.language,
        "version": client.version,
    }


def _parse_connection(document: dict[str, Any]) -> ClientConnection:
    return ClientConnection(
        text(document["clientId"]),
        str(document.get("clientAddr") or ""),
        str(document.get("language") or "OTHER"),
        number(document.get("version") or 0),
    )


def _parse_table(document: dict[str, Any]) -> GroupTable:
    groups = document.get("subscriptionGroupTable") or {}
    return GroupTable(
        parse_data_version(document.get("dataVersion") or {}),
        {name: parse_group({"groupName": name, **config}) for name, config in groups.items()},
        document.get("forbiddenTable") or {},
    )
