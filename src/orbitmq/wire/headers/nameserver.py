"""Requests of brokers, clients and administrators to a NameServer, its key-value store included, and the answers."""

from __future__ import annotations

from orbitmq.codes import RequestCode
from orbitmq.wire.header import Int32, header, request, wire

__all__ = [
    "AddWritePerm",
    "AddWritePermResponse",
    "BrokerHeartbeat",
    "DeleteKvConfig",
    "DeleteTopicInNameServer",
    "GetAllTopics",
    "GetBrokerMemberGroup",
    "GetClusterInfo",
    "GetHealth",
    "GetKvConfig",
    "GetKvConfigResponse",
    "GetKvListByNamespace",
    "GetNameServerConfig",
    "GetRouteDifference",
    "GetRouteHistory",
    "GetRouteInfo",
    "GetSystemTopics",
    "GetTopicsByCluster",
    "GetUnitSubscriptionTopics",
    "GetUnitSubscriptionUnunitTopics",
    "GetUnitTopics",
    "NotifyMinBrokerIdChange",
    "PutKvConfig",
    "QueryDataVersion",
    "QueryDataVersionResponse",
    "RegisterBroker",
    "RegisterBrokerResponse",
    "RegisterTopicInNameServer",
    "UnregisterBroker",
    "UpdateNameServerConfig",
    "WipeWritePerm",
    "WipeWritePermResponse",
]


@request(RequestCode.REGISTER_BROKER)
class RegisterBroker:
    """A broker registers, or renews its lease; the body lists its topics."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    ha_server_addr: str
    broker_id: int
    heartbeat_timeout_millis: int | None = None
    enable_acting_master: bool | None = None
    compressed: bool = False
    body_crc32: Int32 = 0
    zone_name: str | None = wire("__ZONE_NAME", default=None)


@header
class RegisterBrokerResponse:
    """A slave learns its master's addresses."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


@request(RequestCode.UNREGISTER_BROKER)
class UnregisterBroker:
    """A broker leaves."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: int


@request(RequestCode.GET_ROUTEINFO_BY_TOPIC)
class GetRouteInfo:
    """Ask for a topic's route. The zone fields travel next to the header's own."""

    topic: str
    accept_standard_json_only: bool | None = None
    zone_mode: bool | None = wire("__ZONE_MODE", default=None)
    zone_name: str | None = wire("__ZONE_NAME", default=None)


@request(RequestCode.GET_BROKER_CLUSTER_INFO)
class GetClusterInfo:
    """All brokers of all clusters."""


@request(RequestCode.WIPE_WRITE_PERM_OF_BROKER)
class WipeWritePerm:
    """Take the write bit from every topic of a broker name (graceful retirement)."""

    broker_name: str


@header
class WipeWritePermResponse:
    """Counts the topics whose permission changed."""

    wipe_topic_count: Int32


@request(RequestCode.ADD_WRITE_PERM_OF_BROKER)
class AddWritePerm:
    """Give the write bit back to every topic of a broker name."""

    broker_name: str


@header
class AddWritePermResponse:
    """Counts the topics whose permission changed."""

    add_topic_count: Int32


@request(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
class GetAllTopics:
    """Every topic the NameServer knows."""


@request(RequestCode.GET_TOPICS_BY_CLUSTER)
class GetTopicsByCluster:
    """Every topic of one cluster."""

    cluster: str


@request(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)
class GetSystemTopics:
    """Cluster and broker names, which are topics too."""


@request(RequestCode.GET_UNIT_TOPIC_LIST)
class GetUnitTopics:
    """Topics with the unit flag."""


@request(RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST)
class GetUnitSubscriptionTopics:
    """Topics with the unit-subscription flag."""


@request(RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST)
class GetUnitSubscriptionUnunitTopics:
    """Topics with the unit-subscription flag and without the unit flag."""


@request(RequestCode.DELETE_TOPIC_IN_NAMESRV)
class DeleteTopicInNameServer:
    """Delete a topic from the routes, wholly or for one cluster's brokers."""

    topic: str
    cluster_name: str | None = None


@request(RequestCode.REGISTER_TOPIC_IN_NAMESRV)
class RegisterTopicInNameServer:
    """Add one topic's queues; the body is a route of which only the queues count."""

    topic: str


@request(RequestCode.QUERY_DATA_VERSION)
class QueryDataVersion:
    """Ask whether the NameServer has this version of the broker's topic table; renews the lease as well."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: int


@header
class QueryDataVersionResponse:
    """`changed` asks the broker to register in full."""

    changed: bool


@request(RequestCode.GET_BROKER_MEMBER_GROUP)
class GetBrokerMemberGroup:
    """The members of one broker group."""

    cluster_name: str
    broker_name: str


@request(RequestCode.BROKER_HEARTBEAT)
class BrokerHeartbeat:
    """Renew a broker's lease and nothing else."""

    cluster_name: str
    broker_addr: str
    broker_name: str
    broker_id: int | None = None
    epoch: Int32 | None = None
    max_offset: int | None = None
    confirm_offset: int | None = None
    heartbeat_timeout_mills: int | None = None
    election_priority: Int32 | None = None
    log_complete: bool | None = None
    """Ours: False: the log may lack what this broker acknowledged."""


@request(RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE)
class NotifyMinBrokerIdChange:
    """NameServer to brokers, one-way: the smallest id among the living members of their group has changed."""

    min_broker_id: int
    broker_name: str | None = None
    min_broker_addr: str | None = None
    offline_broker_addr: str | None = None
    ha_broker_addr: str | None = None


@request(RequestCode.UPDATE_NAMESRV_CONFIG)
class UpdateNameServerConfig:
    """Change settings; the body is Java properties text."""


@request(RequestCode.GET_NAMESRV_CONFIG)
class GetNameServerConfig:
    """All settings as Java properties text."""


@request(RequestCode.ORBITMQ_HEALTH)
class GetHealth:
    """Ask for the health of this NameServer or broker; the answer is a JSON document (orbitmq only)."""


@request(RequestCode.ORBITMQ_ROUTE_HISTORY)
class GetRouteHistory:
    """Ask for the latest changes of a topic, a broker, or all; the answer is a JSON list, newest first (orbitmq only)."""

    topic: str | None = None
    broker_name: str | None = None
    since_ms: int = wire("since", default=0)
    count_max: Int32 = wire("maxNum", default=200)


@request(RequestCode.ORBITMQ_ROUTE_DIFFERENCE)
class GetRouteDifference:
    """Compare the routes of now with those of an earlier time; the answer is a JSON document (orbitmq only)."""

    at_ms: int = wire("at")


@request(RequestCode.PUT_KV_CONFIG)
class PutKvConfig:
    """Set one value."""

    namespace: str | None = None
    key: str | None = None
    value: str | None = None


@request(RequestCode.GET_KV_CONFIG)
class GetKvConfig:
    """Read one value."""

    namespace: str
    key: str


@header
class GetKvConfigResponse:
    """The value, None when there is none."""

    value: str | None = None


@request(RequestCode.DELETE_KV_CONFIG)
class DeleteKvConfig:
    """Delete one value."""

    namespace: str
    key: str


@request(RequestCode.GET_KVLIST_BY_NAMESPACE)
class GetKvListByNamespace:
    """All values of a namespace."""

    namespace: str
