"""Requests of administrators to a broker and, through it, to a group's running clients; and the answers."""

from __future__ import annotations

from orbitmq.codes import RequestCode
from orbitmq.wire.header import Int32, header, request, wire

__all__ = [
    "CheckRocksdbQueues",
    "CleanExpiredConsumeQueues",
    "CleanUnusedTopics",
    "ConsumeMessageDirectly",
    "DeleteExpiredCommitLog",
    "ExchangeReplicationInfo",
    "ExchangeReplicationInfoResponse",
    "ExportRocksdbTables",
    "GetAllConsumerOffsets",
    "GetAllDelayOffsets",
    "GetBrokerConfig",
    "GetBrokerConfigResponse",
    "GetBrokerConsumeStats",
    "GetBrokerRuntimeInfo",
    "GetClientOffsets",
    "GetClientsOffsets",
    "GetColdDataControl",
    "GetConsumeStats",
    "GetReplicationStatus",
    "GetRunningInfo",
    "GetTimerCheckpoint",
    "GetTimerMetrics",
    "RemoveColdDataControl",
    "ResetClientOffset",
    "ResetMasterFlushOffset",
    "SetCommitLogReadMode",
    "UpdateBrokerConfig",
    "UpdateColdDataControl",
    "ViewBrokerStats",
]


@request(RequestCode.UPDATE_BROKER_CONFIG)
class UpdateBrokerConfig:
    """Change settings; the body is Java properties text."""


@request(RequestCode.GET_BROKER_CONFIG)
class GetBrokerConfig:
    """All settings as Java properties text."""


@header
class GetBrokerConfigResponse:
    """The settings' DataVersion, as JSON text."""

    version: str


@request(RequestCode.GET_BROKER_RUNTIME_INFO)
class GetBrokerRuntimeInfo:
    """Some dozens of run-time values, as a key-value table."""


@request(RequestCode.GET_CONSUME_STATS)
class GetConsumeStats:
    """Per queue of a group's topics: the broker's offset and the group's."""

    consumer_group: str
    topic: str | None = None
    topic_list: str | None = None


@request(RequestCode.GET_ALL_CONSUMER_OFFSET)
class GetAllConsumerOffsets:
    """The whole table of committed offsets."""


@request(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)
class CleanExpiredConsumeQueues:
    """Delete what consume queues keep of messages that are gone."""


@request(RequestCode.CLEAN_UNUSED_TOPIC)
class CleanUnusedTopics:
    """Delete the consume queues of topics that are not in the topic table."""


@request(RequestCode.DELETE_EXPIRED_COMMITLOG)
class DeleteExpiredCommitLog:
    """Delete expired files of the CommitLog now, whatever the hour."""


@request(RequestCode.GET_TIMER_CHECK_POINT)
class GetTimerCheckpoint:
    """How far timers are, as bytes.

    Args:
        is_live: as of this moment, for a slave that waits until its log has what was delivered; else as the last sync left it.
    """

    is_live: bool | None = wire("live", default=None)


@request(RequestCode.GET_TIMER_METRICS)
class GetTimerMetrics:
    """How many messages wait for their time, by topic."""


@request(RequestCode.GET_ALL_DELAY_OFFSET)
class GetAllDelayOffsets:
    """Up to where each delay level was delivered."""


@request(RequestCode.VIEW_BROKER_STATS_DATA)
class ViewBrokerStats:
    """What was counted of one thing in the last minute, hour and day."""

    stats_name: str
    stats_key: str


@request(RequestCode.GET_BROKER_CONSUME_STATS)
class GetBrokerConsumeStats:
    """How far every group is behind on this broker; `is_order`: in ordered topics alone."""

    is_order: bool


@request(RequestCode.GET_BROKER_HA_STATUS)
class GetReplicationStatus:
    """Which slaves follow a master, and how far."""


@request(RequestCode.EXCHANGE_BROKER_HA_INFO)
class ExchangeReplicationInfo:
    """Tell a slave about its master; without an address: ask a master about itself."""

    master_ha_address: str | None = None
    master_flush_offset: int | None = None
    master_address: str | None = None


@header
class ExchangeReplicationInfoResponse:
    """A master's addresses for slaves and for clients, and where its log ended when it started."""

    master_ha_address: str | None = None
    master_flush_offset: int | None = None
    master_address: str | None = None


@request(RequestCode.RESET_MASTER_FLUSH_OFFSET)
class ResetMasterFlushOffset:
    """Tell a slave up to where its master's log is on the disk; a master has no use for it."""

    master_flush_offset: int | None = None


@request(RequestCode.CHECK_ROCKSDB_CQ_WRITE_PROGRESS)
class CheckRocksdbQueues:
    """Compare consume queues that are kept in RocksDB with those in files; of all topics where `topic` is empty."""

    topic: str
    check_store_time: int | None = None


@request(RequestCode.EXPORT_ROCKSDB_CONFIG_TO_JSON)
class ExportRocksdbTables:
    """Write tables that are kept in RocksDB as JSON files: `topics;subscriptionGroups;consumerOffsets`."""

    config_type: str


@request(RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG)
class UpdateColdDataControl:
    """Limit what groups read of messages that are no longer in memory; the body is Java properties text."""


@request(RequestCode.REMOVE_COLD_DATA_FLOW_CTR_CONFIG)
class RemoveColdDataControl:
    """Take such a limit away; the body is the group's name."""


@request(RequestCode.GET_COLD_DATA_FLOW_CTR_INFO)
class GetColdDataControl:
    """Those limits, and what groups have read."""


@request(RequestCode.SET_COMMITLOG_READ_MODE)
class SetCommitLogReadMode:
    """How the system reads ahead in the CommitLog: 0 as it likes, 1 not at all (Java: LibC.MADV_NORMAL, MADV_RANDOM)."""

    mode: Int32 = wire("READ_AHEAD_MODE")


@request(RequestCode.RESET_CONSUMER_CLIENT_OFFSET)
class ResetClientOffset:
    """Broker to client, one-way: go on where the body's table says, in the queues that are yours."""

    group: str
    topic: str
    timestamp_ms: int = wire("timestamp", default=0)
    is_force: bool = False
    queue_id: Int32 = -1


@request(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT)
class GetClientOffsets:
    """Broker to client: how far are you in the queues of this topic?"""

    topic: str
    group: str


@request(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS)
class GetClientsOffsets:
    """Ask a broker how far each of a group's clients is; `client_id`: this one alone."""

    topic: str
    group: str
    client_id: str | None = wire("clientAddr", default=None)


@request(RequestCode.GET_CONSUMER_RUNNING_INFO)
class GetRunningInfo:
    """Ask a client, through its broker, for its settings, its queues and its figures; with `jstack_enable` for its stacks."""

    consumer_group: str
    client_id: str
    jstack_enable: bool = False


@request(RequestCode.CONSUME_MESSAGE_DIRECTLY)
class ConsumeMessageDirectly:
    """Let one client consume one message now; the broker adds the message itself as the body."""

    consumer_group: str
    client_id: str | None = None
    message_id: str | None = wire("msgId", default=None)
    broker_name: str | None = None
    topic: str | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None
