"""Requests about client groups: heartbeats, membership, queue locks, settings."""

from __future__ import annotations

from orbitmq.codes import RequestCode
from orbitmq.wire.header import header, request, wire

__all__ = [
    "CheckClientConfig",
    "CloneGroupOffsets",
    "DeleteSubscriptionGroup",
    "GetAllProducers",
    "GetAllSubscriptionGroups",
    "GetConsumerConnections",
    "GetConsumerList",
    "GetProducerConnections",
    "GetSubscriptionGroup",
    "HeartbeatRequest",
    "HeartbeatResponse",
    "LockQueues",
    "NotifyConsumerIdsChanged",
    "QuerySubscription",
    "QueryTopicsOfGroup",
    "UnlockQueues",
    "UnregisterClient",
    "UpdateForbiddenTopics",
    "UpdateSubscriptionGroup",
    "UpdateSubscriptionGroups",
]


@request(RequestCode.HEART_BEAT)
class HeartbeatRequest:
    """A client says which groups it belongs to; the body is a Heartbeat."""


@header
class HeartbeatResponse:
    """Says which forms of heartbeat the broker understands, and whether the subscriptions changed."""

    is_support_heart_beat_v2: bool | None = wire("IS_SUPPORT_HEART_BEAT_V2", default=None)
    is_sub_change: bool | None = wire("IS_SUB_CHANGE", default=None)


@request(RequestCode.UNREGISTER_CLIENT)
class UnregisterClient:
    """A client leaves a group."""

    client_id: str = wire("clientID")
    producer_group: str | None = None
    consumer_group: str | None = None


@request(RequestCode.GET_CONSUMER_LIST_BY_GROUP)
class GetConsumerList:
    """The client ids of a group's consumers."""

    consumer_group: str
    broker_name: str | None = wire("bname", default=None)


@request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED)
class NotifyConsumerIdsChanged:
    """Broker to client, one-way: your group's members changed, rebalance."""

    consumer_group: str


@request(RequestCode.CHECK_CLIENT_CONFIG)
class CheckClientConfig:
    """Ask whether a subscription's expression is valid; the body holds it."""


@request(RequestCode.LOCK_BATCH_MQ)
class LockQueues:
    """Lock queues for one client of a group (ordered consumption); the body lists them."""


@request(RequestCode.UNLOCK_BATCH_MQ)
class UnlockQueues:
    """Release locks of queues; the body lists them."""


@request(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP)
class UpdateSubscriptionGroup:
    """Create or change a group's settings; the body is its configuration."""


@request(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
class GetAllSubscriptionGroups:
    """The whole table of group settings."""


@request(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG)
class GetSubscriptionGroup:
    """One group's settings."""

    group: str


@request(RequestCode.DELETE_SUBSCRIPTIONGROUP)
class DeleteSubscriptionGroup:
    """Delete a group's settings, and its offsets where `clean_offset` says so."""

    group_name: str
    clean_offset: bool | None = None


@request(RequestCode.GET_CONSUMER_CONNECTION_LIST)
class GetConsumerConnections:
    """List the consumers of a group with their addresses."""

    consumer_group: str


@request(RequestCode.GET_PRODUCER_CONNECTION_LIST)
class GetProducerConnections:
    """List the producers of a group with their addresses."""

    producer_group: str


@request(RequestCode.GET_ALL_PRODUCER_INFO)
class GetAllProducers:
    """List the producers of every group."""


@request(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST)
class UpdateSubscriptionGroups:
    """Create or change many groups' settings; the body lists them."""


@request(RequestCode.CLONE_GROUP_OFFSET)
class CloneGroupOffsets:
    """Give a group the offsets of another one, in one topic."""

    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool = False


@request(RequestCode.QUERY_TOPICS_BY_CONSUMER)
class QueryTopicsOfGroup:
    """The topics that a group has offsets in."""

    group: str


@request(RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER)
class QuerySubscription:
    """What a group that is online subscribes to in a topic."""

    group: str
    topic: str | None = None


@request(RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN)
class UpdateForbiddenTopics:
    """Forbid a group to read a topic, or allow it again; without `readable`, ask which."""

    group: str
    topic: str
    readable: bool | None = None
