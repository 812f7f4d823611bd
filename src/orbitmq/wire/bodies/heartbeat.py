"""Heartbeats of clients, and the lists that brokers answer about groups.

Source: Java HeartbeatData, ConsumerData, SubscriptionData, GetConsumerListByGroupResponseBody, LockBatchRequestBody.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import orjson

from orbitmq.model.group import ConsumeFrom, ConsumerInfo, ConsumeType, Heartbeat, MessageModel, Subscription
from orbitmq.model.route import MessageQueue
from orbitmq.wire.bodies.document import flag, items, number, parse_body, text

CLIENT_BODY_SIZE_MAX = 4 * 1024 * 1024
"""Ours: bytes of what a client says of itself; 10,000 subscriptions have a third of it."""


def encode_heartbeat(heartbeat: Heartbeat) -> bytes:
    """Encode the body of HEART_BEAT."""
    return orjson.dumps(
        {
            "clientID": heartbeat.client_id,
            "consumerDataSet": [_consumer_document(consumer) for consumer in heartbeat.consumers],
            "heartbeatFingerprint": heartbeat.fingerprint,
            "producerDataSet": [{"groupName": group} for group in heartbeat.producer_groups],
            "withoutSub": heartbeat.without_subscriptions,
        }
    )


def decode_heartbeat(body: bytes) -> Heartbeat:
    """Decode the body of HEART_BEAT.

    Raises:
        HeaderError: the body is not a heartbeat.
    """
    return parse_body("heartbeat", body, _parse_heartbeat, size_max=CLIENT_BODY_SIZE_MAX)


def encode_consumer_list(client_ids: Iterable[str]) -> bytes:
    """Encode the answer to GET_CONSUMER_LIST_BY_GROUP."""
    return orjson.dumps({"consumerIdList": list(client_ids)})


def decode_consumer_list(body: bytes) -> tuple[str, ...]:
    """Decode the answer to GET_CONSUMER_LIST_BY_GROUP."""
    return parse_body("consumer list", body, lambda document: tuple(map(text, document.get("consumerIdList") or ())))


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionCheck:
    """The body of CHECK_CLIENT_CONFIG."""

    client_id: str
    group: str
    subscription: Subscription


def decode_subscription_check(body: bytes) -> SubscriptionCheck:
    """Decode the body of CHECK_CLIENT_CONFIG."""
    return parse_body(
        "client config",
        body,
        lambda document: SubscriptionCheck(
            client_id=document.get("clientId") or "",
            group=document.get("group") or "",
            subscription=parse_subscription(document["subscriptionData"]),
        ),
        size_max=CLIENT_BODY_SIZE_MAX,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLock:
    """The body of LOCK_BATCH_MQ and UNLOCK_BATCH_MQ."""

    group: str
    client_id: str
    queues: tuple[MessageQueue, ...]
    only_this_broker: bool = False


def encode_queue_lock(lock: QueueLock) -> bytes:
    """Encode the body of LOCK_BATCH_MQ and UNLOCK_BATCH_MQ."""
    return orjson.dumps(
        {
            "clientId": lock.client_id,
            "consumerGroup": lock.group,
            "mqSet": [queue_document(queue) for queue in lock.queues],
            "onlyThisBroker": lock.only_this_broker,
        }
    )


def decode_queue_lock(body: bytes) -> QueueLock:
    """Decode the body of LOCK_BATCH_MQ and UNLOCK_BATCH_MQ.

    Raises:
        HeaderError: the body is none.
    """
    return parse_body("queue lock", body, _parse_queue_lock, size_max=CLIENT_BODY_SIZE_MAX)


def encode_locked_queues(queues: Iterable[MessageQueue]) -> bytes:
    """Encode the answer to LOCK_BATCH_MQ."""
    return orjson.dumps({"lockOKMQSet": [queue_document(queue) for queue in queues]})


def decode_locked_queues(body: bytes) -> tuple[MessageQueue, ...]:
    """Decode the answer to LOCK_BATCH_MQ."""
    return parse_body(
        "locked queues", body, lambda document: tuple(parse_queue(queue) for queue in document.get("lockOKMQSet") or ())
    )


def queue_document(queue: MessageQueue) -> dict[str, Any]:
    """Return the JSON object of a MessageQueue."""
    return {"brokerName": queue.broker_name, "queueId": queue.queue_id, "topic": queue.topic}


def parse_queue(document: dict[str, Any]) -> MessageQueue:
    """Build a MessageQueue from its JSON object."""
    return MessageQueue(text(document["topic"]), text(document["brokerName"]), number(document["queueId"]))


def parse_queue_key(key: Any) -> MessageQueue:
    """Build a MessageQueue from the key of a table: an object, as Java writes it, or its JSON as text, as rocketmq-rust does."""
    try:
        document = orjson.loads(key) if isinstance(key, str) else dict(key)
    except (ValueError, TypeError):
        document = None
    if not isinstance(document, dict):
        raise ValueError(f"a key of the table is {key!r:.80}, expected an object with topic, brokerName and queueId")
    return parse_queue(document)


def _parse_queue_lock(document: dict[str, Any]) -> QueueLock:
    names: dict[str, str] = {}

    def name(value: Any) -> str:
        return names.get(value) or names.setdefault(value, text(value))  # thousands of queues share a few names

    queues = tuple(
        MessageQueue(name(queue["topic"]), name(queue["brokerName"]), number(queue["queueId"]))
        for queue in items(document.get("mqSet", []))
    )
    return QueueLock(
        group=text(document["consumerGroup"]),
        client_id=text(document["clientId"]),
        queues=queues,
        only_this_broker=flag(document.get("onlyThisBroker")),
    )


def subscription_document(subscription: Subscription) -> dict[str, Any]:
    """Return the JSON object of a Subscription."""
    return {
        "classFilterMode": subscription.class_filter_mode,
        "codeSet": sorted(subscription.tag_codes),
        "expressionType": subscription.expression_type,
        "subString": subscription.expression,
        "subVersion": subscription.version,
        "tagsSet": sorted(subscription.tags),
        "topic": subscription.topic,
    }


def parse_subscription(document: dict[str, Any]) -> Subscription:
    """Build a Subscription from its JSON object."""
    get = document.get
    kind = text(get("expressionType") or "TAG")
    return Subscription(
        topic=text(document["topic"]),
        expression=text(get("subString") or ("*" if kind == "TAG" else "")),
        expression_type=kind,
        tags=frozenset(map(text, _listed(get("tagsSet")))),
        tag_codes=frozenset(map(number, _listed(get("codeSet")))),
        version=number(get("subVersion") or 0),
        class_filter_mode=flag(get("classFilterMode")),
    )


def _consumer_document(consumer: ConsumerInfo) -> dict[str, Any]:
    return {
        "consumeFromWhere": consumer.consume_from,
        "consumeType": consumer.consume_type,
        "groupName": consumer.group,
        "messageModel": consumer.message_model,
        "subscriptionDataSet": [subscription_document(subscription) for subscription in consumer.subscriptions],
        "unitMode": consumer.unit_mode,
    }


def _parse_heartbeat(document: dict[str, Any]) -> Heartbeat:
    get = document.get
    return Heartbeat(
        client_id=text(document["clientID"]),
        producer_groups=tuple(text(producer["groupName"]) for producer in _listed(get("producerDataSet"))),
        consumers=tuple(_parse_consumer(consumer) for consumer in _listed(get("consumerDataSet"))),
        fingerprint=number(get("heartbeatFingerprint") or 0),
        without_subscriptions=flag(get("withoutSub")),
    )


def _parse_consumer(document: dict[str, Any]) -> ConsumerInfo:
    get = document.get
    return ConsumerInfo(
        group=text(document["groupName"]),
        consume_type=ConsumeType(get("consumeType") or ConsumeType.PUSH),
        message_model=MessageModel(get("messageModel") or MessageModel.CLUSTERING),
        consume_from=_parse_consume_from(get("consumeFromWhere")),
        subscriptions=tuple(parse_subscription(subscription) for subscription in _listed(get("subscriptionDataSet"))),
        unit_mode=flag(get("unitMode")),
    )


def _parse_consume_from(name: str | None) -> ConsumeFrom:
    """Java keeps three deprecated names that all mean "from the last offset"."""
    return next((known for known in ConsumeFrom if known == name), ConsumeFrom.LAST)


def _listed(value: Any) -> list[Any]:
    """Return the items of a list that may be left out."""
    return [] if value is None else items(value)
