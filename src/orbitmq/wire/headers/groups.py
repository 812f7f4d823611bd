"""Requests about client groups: heartbeats, membership, queue locks, settings."""

from __future__ import annotations

from dataclasses import dataclass

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
@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatRequest:
    """A client says which groups it belongs to; the body is a Heartbeat."""


@header
@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatResponse:
    """Says which forms of heartbeat the broker understands, and whether the subscriptions changed."""

    is_support_heart_beat_v2: bool | None = wire("IS_SUPPORT_HEART_BEAT_V2", default=None)
    is_sub_change: bool | None = wire("IS_SUB_CHANGE", default=None)


@request(RequestCode.UNREGISTER_CLIENT)
@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterClient:
    """A client leaves a group."""

    client_id: str = wire("clientID")
    producer_group: str | None = None
    consumer_group: str | None = None


@request(RequestCode.GET_CONSUMER_LIST_BY_GROUP)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetConsumerList:
    """The client ids of a group's consumers."""

    consumer_group: str
    broker_name: str | None = wire("bname", default=None)


@request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED)
@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyConsumerIdsChanged:
    """Broker to client, one-way: your group's members changed, rebalance."""

    consumer_group: str


@request(RequestCode.CHECK_CLIENT_CONFIG)
@dataclass(frozen=True, slots=True, kw_only=True)
class CheckClientConfig:
    """Ask whether a subscription's expression is valid; the body holds it."""


@request(RequestCode.LOCK_BATCH_MQ)
@dataclass(frozen=True, slots=True, kw_only=True)
class LockQueues:
    """Lock queues for one client of a group (ordered consumption); the body lists them."""


@request(RequestCode.UNLOCK_BATCH_MQ)
@dataclass(frozen=True, slots=True, kw_only=True)
class UnlockQueues:
    """Release locks of queues; the body lists them."""


@request(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP)
@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateSubscriptionGroup:
    """Create or change a group's settings; the body is its configuration."""


@request(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetAllSubscriptionGroups:
    """The whole table of group settings."""


@request(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetSubscriptionGroup:
    """One group's settings."""

    group: str


@request(RequestCode.DELETE_SUBSCRIPTIONGROUP)
@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteSubscriptionGroup:
    """Delete a group's settings, and its offsets where `clean_offset` says so."""

    group_name: str
    clean_offset: bool | None = None


@request(RequestCode.GET_CONSUMER_CONNECTION_LIST)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetConsumerConnections:
    """List the consumers of a group with their addresses."""

    consumer_group: str


@request(RequestCode.GET_PRODUCER_CONNECTION_LIST)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetProducerConnections:
    """List the producers of a group with their addresses."""

    producer_group: str


@request(RequestCode.GET_ALL_PRODUCER_INFO)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetAllProducers:
    """List the producers of every group."""


@request(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST)
@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateSubscriptionGroups:
    """Create or change many groups' settings; the body lists them."""


@request(RequestCode.CLONE_GROUP_OFFSET)
@dataclass(frozen=True, slots=True, kw_only=True)
class CloneGroupOffsets:
    """Give a group the offsets of another one, in one topic."""

    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool = False


@request(RequestCode.QUERY_TOPICS_BY_CONSUMER)
@dataclass(frozen=True, slots=True, kw_only=True)
class QueryTopicsOfGroup:
    """The topics that a group has offsets in."""

    group: str


@request(RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER)
@dataclass(frozen=True, slots=True, kw_only=True)
class QuerySubscription:
    """What a group that is online subscribes to in a topic."""

    group: str
    topic: str | None = None


@request(RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN)
@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateForbiddenTopics:
    """Forbid a group to read a topic, or allow it again; without `readable`, ask which."""

    group: str
    topic: str
    readable: bool | None = None
