"""The broker's settings: RocketMQ's own keys, typed, with ranges.

A field's name is its key in `broker.conf` in snake case (`brokerClusterName` is `broker_cluster_name`); the
defaults are Java's where no comment says otherwise. Times are in milliseconds, sizes in bytes.

Source: docs/reference of the keys is this file; Java BrokerConfig, MessageStoreConfig, NettyServerConfig.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from orbitmq.broker.access.settings import check_access
from orbitmq.errors import ConfigError, InvalidArgument
from orbitmq.masking import masked_settings
from orbitmq.model.delay_levels import DELAY_LEVELS_TEXT, DelayLevels, parse_delay_levels
from orbitmq.model.message import BODY_SIZE_MAX
from orbitmq.model.topic import check_name
from orbitmq.net.security.server_settings import ServerSettings
from orbitmq.settings import (
    java_key,
    parse_addresses,
    read_properties,
)
from orbitmq.store.index.index_file import IndexSizes
from orbitmq.store.retention.rules import parse_hours
from orbitmq.store.timers.wheel import SLOT_COUNT

log = logging.getLogger(__name__)

CONSUME_QUEUE_UNIT_SIZE = 20
_KIB, _MIB, _GIB = 1024, 1024**2, 1024**3
_BLANK_SLOTS = 60
"""Slots of the timer wheel that stay free behind the window, as in Java."""
_INDEX_FILE_SIZE_MAX = 2 * _GIB - 1


def _host_name() -> str:
    legal = (
        letter if (letter.isalnum() and letter.isascii()) or letter in "_-" else "-" for letter in socket.gethostname()
    )
    return "".join(legal) or "broker-a"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig(ServerSettings):
    """The settings of a broker at its start. Every value is checked here, and nowhere else."""

    # Its identity, and where it registers.
    broker_cluster_name: str = "DefaultCluster"
    broker_name: str = field(default_factory=_host_name)
    broker_id: int = 0
    broker_role: str = "ASYNC_MASTER"
    namesrv_addr: str = ""
    fetch_namesrv_addr_by_address_server: bool = False
    """Where namesrvAddr is empty, read the list from `address_server`, again and again."""
    fetch_namesrv_addr_interval: int = 10_000
    """Between two readings of it."""
    address_server: str = ""
    """Ours: an http:// or https:// URL, or a file, whose text is a list as in namesrvAddr. Java's broker takes
    http://DOMAIN:8080/rocketmq/nsaddr of its system property rocketmq.namesrv.domain."""
    broker_config_path: str = ""
    """The file that these settings are from: what is changed while the broker runs is kept there. Empty:
    `config/broker.properties` below the store."""
    register_name_server_period: int = 30_000
    register_broker_timeout_mills: int = 6_000
    enable_split_registration: bool = False
    split_registration_size: int = 800
    """Topics of one part with enableSplitRegistration; without it 10,000 are one part."""
    heartbeat_enable: bool = False
    """Ours: renew a lease of brokerNotActiveTimeoutMillis every brokerHeartbeatInterval, so that NameServers notice a
    silent death in seconds (Java does this as a part of enableSlaveActingMaster)."""
    broker_heartbeat_interval: int = 1_000
    broker_not_active_timeout_millis: int = 10_000
    """Java waits 24 s; nothing waits here, each NameServer has its own task."""

    # Where it listens. Port 0 means: choose one.
    listen_port: int = 10911
    vip_channel_enable: bool = True
    """Ours: clients are served at listenPort - 2 as well, where Java's send with `vipChannelEnabled` (Java: always)."""
    ha_listen_port: int = -1
    """Where slaves follow the log; 0: listenPort + 1. Ours: -1: nowhere, for the port asks for no signature, but with
    SYNC_MASTER at listenPort + 1."""
    broker_ip1: str = ""
    """The address clients are told; empty: the bound address, or this host's own when that is 0.0.0.0."""
    connections_per_address_max: int = 0
    """Ours: open connections from one IP address; 0: no limit."""
    requests_per_second_max: int = 0
    """Ours: requests per second on one connection, with a burst of one second; 0: no limit."""
    frame_deadline_seconds: int = 30
    """Ours: a frame that began to arrive must be whole after this long; 0: no limit."""
    partial_frames_max: int = 64 * _MIB
    """Ours: bytes of the unfinished frames of all connections; one address may have three quarters of it; 0: no limit."""
    write_buffer_max: int = 64 * _MIB
    """Ours: bytes that may wait for one client that does not read; 0: no limit."""
    waiting_answers_max: int = 64 * _MIB
    """Ours: the same for all clients together; beyond, the client that has read nothing for the longest is disconnected."""

    # Ours: what operators see, besides Java's limit of metrics with labels of their own.
    metrics_otel_cardinality_limit: int = 50_000
    """Topics, groups, and pairs of them, that metrics tell apart; others are left out."""

    # Access, besides what every server has for that. With `aclEnable` every request needs a signature (`access`).
    acl_file: Path = field(default_factory=lambda: Path.home() / "store" / "accounts.json")

    # Users and rules (ACL 2.0): docs/howto/secure-the-broker.md. Texts that hold secrets show in no log and no answer.
    authentication_enabled: bool = False
    """Every request has to be signed by a user."""
    authorization_enabled: bool = False
    """And the user needs a rule that allows what it asks for."""
    authentication_whitelist: str = ""
    """Request codes that need no signature."""
    authorization_whitelist: str = ""
    """Request codes that need no rule."""
    init_authentication_user: str = field(default="", repr=False)
    """A super user that is made where there is none of its name: {"username":"...","password":"..."}."""
    inner_client_authentication_credentials: str = field(default="", repr=False)
    """What the broker signs its own requests with: {"accessKey":"...","secretKey":"..."}; a super user here, too."""
    migrate_auth_from_v1_enabled: bool = False
    """Accounts of 4.x that are not users yet become users at a start."""
    plain_acl_file: str = ""
    """Ours: the file of those accounts; Java looks for conf/plain_acl.yml in its home."""

    # What it keeps, and how safely.
    store_path_root_dir: Path = field(default_factory=lambda: Path.home() / "store")
    flush_disk_type: str = "ASYNC_FLUSH"
    flush_interval_commit_log: int = 500
    sync_flush_timeout: int = 5_000
    """SYNC_FLUSH: a send whose sync takes longer is answered FLUSH_DISK_TIMEOUT, up to a tenth later."""
    sync_flush_waiting_max: int = 64 * _MIB
    """Ours: SYNC_FLUSH: bytes that may wait for the disk; beyond, sends are answered SYSTEM_BUSY."""
    open_files_max: int = 0
    """Ours: descriptors that the store's files may take at a time. 0: a quarter of the process's."""
    mapped_file_size_commit_log: int = _GIB
    mapped_file_size_consume_queue: int = 300_000 * CONSUME_QUEUE_UNIT_SIZE
    enabled_append_prop_crc: bool = False
    """Every record carries a checksum of all its bytes; without it only the body has one."""
    message_index_enable: bool = True
    """Messages can be asked for by key: each unique key and each of KEYS gets an entry of an index file."""
    message_index_safe: bool = False
    """Java rebuilds entries that a crash took only with this; here they always are."""
    max_hash_slot_num: int = 5_000_000
    max_index_num: int = 20_000_000
    """Both make a new index file's size, together at most 2 GiB."""
    default_query_max_num: int = 32
    """Messages that are looked for by unique key."""
    max_msgs_num_batch: int = 64
    """The most messages that a query by key may have."""
    broker_fast_failure_enable: bool = True
    """A send that has waited here longer than waitTimeMillsInSendQueue for its turn is answered SYSTEM_BUSY, unstored."""
    wait_time_mills_in_send_queue: int = 200
    large_batches_max: int = 16
    """Ours: batches of more messages than are stored in one piece that may be under way, one of them at a time."""
    async_flush_waiting_max: int = 512 * _MIB
    """Ours: ASYNC_FLUSH: bytes that the disk may be behind; beyond, sends are answered SYSTEM_BUSY."""
    queue_entries_max: int = 64 * _MIB
    """Ours: bytes of consume-queue entries that may wait in memory for a disk that does not take their files."""
    accept_log_end: int = -1
    """Ours: the CommitLog may end here, although more of it was on the disk once: a start that finds bytes missing
    names this number. -1: the broker does not start then."""
    max_message_size: int = BODY_SIZE_MAX

    # How long it keeps it: docs/howto/operate.md says which file is deleted when. Ratios are percents of the disk.
    file_reserved_time: int = 72
    """Hours."""
    delete_when: str = "04"
    disk_max_used_space_ratio: int = 75
    disk_space_clean_forcibly_ratio: int = 85
    """Java takes no more than 85, and 90 in the next one; 100 means here that it never comes to that."""
    disk_space_warning_level_ratio: int = 90
    clean_file_forcibly_enable: bool = True
    delete_file_batch_max: int = 10
    delete_commit_log_files_interval: int = 100
    delete_consume_queue_files_interval: int = 100
    clean_resource_interval: int = 10_000

    # Messages that are delivered later.
    message_delay_level: str = DELAY_LEVELS_TEXT
    """How long each delay level waits; a message that asks for one above the highest gets the highest."""
    timer_wheel_enable: bool = True
    """Messages may ask for a time of their own; without it they are refused."""
    timer_precision_ms: int = 1_000
    """A timer is delivered at the end of the step of time that its own lies in."""
    timer_roll_window_slot: int = 2 * 24 * 3_600
    """Steps: whose time is further away waits in several turns, each of which stores the message again."""
    timer_max_delay_sec: int = 3 * 24 * 3_600
    timer_flush_interval_ms: int = 1_000
    timer_congest_num_each_slot: int = 2**31 - 1
    """Messages that may be due at one step; up to twice as many are taken with a chance that shrinks."""
    mapped_file_size_timer_log: int = 100 * _MIB
    recall_message_enable: bool = False
    """Producers may take delayed messages back."""
    allow_recall_when_broker_not_writeable: bool = True

    # Slaves that follow.
    ha_master_address: str = ""
    """SLAVE: where the master's slaves connect, as host:port; empty: NameServers say it."""
    slave_read_enable: bool = False
    """Suggest a slave to readers of what is no longer in memory."""
    ha_send_heartbeat_interval: int = 5_000
    ha_housekeeping_interval: int = 20_000
    """A slave that has reported nothing for so long is disconnected."""
    ha_transfer_batch_size: int = 32 * _KIB
    ha_max_gap_not_in_sync: int = 256 * _MIB
    """A slave that is further behind is shown as not in sync, and sends do not wait for it."""
    in_sync_replicas: int = 1
    """SYNC_MASTER: brokers that must have a message before its send is answered, this one counted; 1 counts as 2."""
    min_in_sync_replicas: int = 1
    """Of a controlled group: a master with fewer members in its sync set, itself counted, takes no messages."""
    slave_timeout: int = 3_000
    """SYNC_MASTER: a send whose slaves take longer is answered FLUSH_SLAVE_TIMEOUT, up to a tenth of a second later."""

    # Failover: controllers decide which broker of a name leads.
    enable_controller_mode: bool = False
    """Controllers say the role and the id: brokerRole and brokerId have no effect, and every acknowledged message is on all members
    of the sync set."""
    controller_addr: str = ""
    """Every controller as host:port, joined with ;."""
    controller_heart_beat_timeout_mills: int = 1_500
    """A member that was silent for so long is lost; heartbeats are sent five times as often. Java: 10000."""

    enable_d_leger_commit_log: bool = False
    """This broker has a controller of its own within its process, and all of these are the controllers of its group."""
    d_leger_group: str = ""
    """With enableDLegerCommitLog: the name of the controllers' group; empty: brokerName."""
    d_leger_peers: str = ""
    """With enableDLegerCommitLog: the controller of every member, as name-host:port, joined with ;."""
    d_leger_self_id: str = ""
    """With enableDLegerCommitLog: which of the peers is this broker's."""

    # LMQs (light message queues).
    enable_lmq: bool = False
    """Enables LMQs (light message queues), topics `%LMQ%...` that need no creation; offsets are kept in `lmqConsumerOffset.json`."""
    enable_multi_dispatch: bool = False
    """With enableLmq: messages are put into the LMQs that they name."""
    max_lmq_consume_queue_num: int = 20_000
    """LMQs that there may be: a message that names one too many is refused."""

    # What clients leave behind.
    flush_consumer_offset_interval: int = 5_000

    # Topics and groups.
    auto_create_topic_enable: bool = True
    auto_create_subscription_group: bool = True
    default_topic_queue_nums: int = 8
    cluster_topic_enable: bool = True
    broker_topic_enable: bool = True
    trace_topic_enable: bool = False
    msg_trace_topic_name: str = "RMQ_SYS_TRACE_TOPIC"
    topics_max: int = 200_000
    """Ours: topics that there may be; one that is new beyond is refused."""
    groups_max: int = 200_000
    """Ours: the same for consumer groups."""
    enable_mixed_message_type: bool = False
    """Topics may have the attribute `message.type=MIXED`."""
    clear_retry_topic_when_delete_topic: bool = True
    """A topic that is deleted takes along the retries of its messages that groups popped."""
    broker_permission: int = 6
    forward_timeout: int = 3_000
    """How long another broker may take that has older messages of a static topic's queue, in milliseconds."""
    notify_consumer_ids_changed_enable: bool = True
    use_server_side_reset_offset: bool = True
    """Set groups' offsets here, and tell each reader at its next pull; otherwise the group's clients are told, who have
    to be online, and set them."""
    channel_expired_timeout: int = 120_000
    rebalance_lock_max_live_time: int = 60_000
    rebalance_lock_grace_time: int = 5_000
    """Ours: so long the queue locks of a client stay whose connection has closed without an unlock, unless it is back by then."""

    # Pulls. Java moves at most 32 messages or 256 KiB per pull; a pull here may fill a few MiB, which costs the
    # same and lets bulk readers run at the disk's speed. A client's own limits (32 messages) always win.
    max_transfer_count_on_message_in_memory: int = 8_192
    max_transfer_bytes_on_message_in_memory: int = 4 * _MIB
    long_polling_enable: bool = True
    short_polling_time_mills: int = 1_000
    parked_pulls_max: int = 100_000
    """Ours: pulls that wait for messages, all queues together. A pull over the limit is answered immediately."""
    parked_pulls_size_max: int = 128 * _MIB
    """Ours: memory that they may take, estimated; one connection may have three quarters of both."""
    enable_property_filter: bool = False
    """Subscriptions may be SQL92 expressions over properties; without it only tags (docs/reference/sql92.md)."""
    filter_support_retry: bool = False
    """Messages that a consumer sent back pass the group's SQL92 filter once more, which may have changed since."""

    # POP.
    pop_polling_size: int = 1_024
    """Pops that wait for the same queue, or for any, of one topic for one group."""
    max_pop_polling_size: int = 100_000
    """Pops that wait, all together; one connection may have three quarters of them."""
    pop_checkpoints_max: int = 100_000
    """Ours: pops whose messages are not all acknowledged; beyond, pops are answered FLOW_CONTROL."""
    enable_pop_message_threshold: bool = False
    pop_inflight_message_threshold: int = 10_000
    """With enablePopMessageThreshold: messages of a queue that a group may have before it gets no more."""
    pop_from_retry_probability: int = 20
    """Percent of the pops that look for retries first, the others last."""
    default_message_request_mode: str = "PULL"
    """How consumers that let the broker assign their queues get messages, PULL or POP, unless 401 says otherwise."""
    default_pop_share_queue_num: int = -1
    """POP: how many of the others' shares each of them reads as well; 0 or less: every queue."""
    enable_retry_topic_v2: bool = False
    """Retries of popped messages go to `%RETRY%group+topic`, not to `%RETRY%group_topic`; both are read."""

    # Request-reply.
    store_reply_message_enable: bool = True
    """Replies are stored in `<cluster>_REPLY_TOPIC`, too, besides being pushed to the requester."""
    reply_pushes_max: int = 10_000
    """Ours: replies on their way to clients that have not confirmed them; a quarter of them to one client."""
    reply_pushes_size_max: int = 64 * _MIB
    """Ours: the same in bytes."""

    # Transactions.
    transaction_time_out: int = 6_000
    """How long a producer has to decide before it is asked; at most the interval of the checks later."""
    transaction_check_interval: int = 30_000
    transaction_check_max: int = 15
    """How often a producer is asked; then its message goes to TRANS_CHECK_MAX_TIME_TOPIC."""
    transaction_op_msg_max_size: int = 4_096
    transaction_op_batch_interval: int = 3_000
    reject_transaction_message: bool = False

    # What answers to a send carry for trace consoles.
    region_id: str = "DefaultRegion"
    trace_on: bool = True

    def __post_init__(self) -> None:
        check_access(self)
        self.check(_RANGES)
        if self.is_slave and not self.broker_id:
            raise ConfigError("brokerId", self.broker_id, "an id above 0 for a slave: 0 is the master's")
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                raise ConfigError(java_key(name), getattr(self, name), " or ".join(map(str, allowed)))
        if IndexSizes(self.max_hash_slot_num, self.max_index_num).file_size > _INDEX_FILE_SIZE_MAX:
            raise ConfigError("maxIndexNum", self.max_index_num, "index files of less than 2 GiB")
        parse_addresses("namesrvAddr", self.namesrv_addr)
        if self.fetch_namesrv_addr_by_address_server and not self.address_server:
            expected = "with fetchNamesrvAddrByAddressServer the URL or the file that has the NameServers"
            raise ConfigError("addressServer", self.address_server, expected)
        parse_addresses("haMasterAddress", self.ha_master_address)
        if self.enable_d_leger_commit_log and not (self.d_leger_peers and self.d_leger_self_id):
            expected = (
                "with enableDLegerCommitLog every member's controller, and dLegerSelfId, which of them is this one's"
            )
            raise ConfigError("dLegerPeers", self.d_leger_peers, expected)
        if self.enable_controller_mode and not self.controllers:
            raise ConfigError(
                "controllerAddr", self.controller_addr, "with enableControllerMode the controllers' addresses"
            )
        try:
            parse_hours(self.delete_when)
        except ValueError:
            hours = "hours from 00 to 23 with semicolons between them"
            raise ConfigError("deleteWhen", self.delete_when, hours) from None
        try:
            for name in ("broker_cluster_name", "broker_name"):
                check_name(java_key(name), getattr(self, name))
            parse_delay_levels(self.message_delay_level)
        except InvalidArgument as error:
            raise ConfigError(error.field, error.value, error.allowed) from None
        object.__setattr__(self, "acl_file", Path(self.acl_file).expanduser())
        object.__setattr__(self, "store_path_root_dir", Path(self.store_path_root_dir))

    @property
    def name_servers(self) -> tuple[str, ...]:
        """The NameServers of `namesrv_addr`, each as host:port."""
        return parse_addresses("namesrvAddr", self.namesrv_addr)

    @property
    def name_server_source(self) -> str:
        """The URL or file that the list of NameServers is read from; empty: it is `name_servers`."""
        return self.address_server if self.fetch_namesrv_addr_by_address_server and not self.name_servers else ""

    @property
    def has_name_servers(self) -> bool:
        """Return True if the broker registers with NameServers."""
        return bool(self.name_servers or self.name_server_source)

    @property
    def controllers(self) -> tuple[str, ...]:
        """The controllers of `controller_addr`, each as host:port."""
        return parse_addresses("controllerAddr", self.controller_addr)

    @property
    def is_slave(self) -> bool:
        """Return True if it copies a master."""
        return self.broker_role == "SLAVE"

    @property
    def has_slaves(self) -> bool:
        """Return True if slaves may follow."""
        return self.ha_listen_port >= 0 or self.broker_role == "SYNC_MASTER"

    @property
    def delay_levels(self) -> DelayLevels:
        """The delays of `message_delay_level`."""
        return parse_delay_levels(self.message_delay_level)

    @classmethod
    def from_properties(cls, path: Path | str, **overrides: Any) -> BrokerConfig:
        """Read a `broker.conf`; `overrides` (by field name) win over the file.

        Raises:
            ConfigError: the file cannot be read, or a key holds a value that is not allowed.
        """
        return cls.from_mapping(read_properties(path), **{"broker_config_path": str(path), **overrides})

    @classmethod
    def from_mapping(cls, properties: Mapping[str, str], **overrides: Any) -> BrokerConfig:
        """Build the settings from RocketMQ's keys and text values; keys that mean nothing here are passed over.

        Raises:
            ConfigError: a key holds a value that is not allowed.
        """
        config = cls(**{**cls.parse(properties), **overrides})
        if config.broker_id and not config.is_slave:
            log.warning("broker.conf: brokerId=%d becomes 0, the id of a master, as brokerRole says", config.broker_id)
            config = replace(config, broker_id=0)  # as Java's BrokerStartup does
        for key, below in IMPLIED_PATHS.items():
            if key in properties and Path(properties[key].strip()) != config.store_path_root_dir / below:
                raise ConfigError(key, properties[key], f"storePathRootDir/{below}: other places are not supported")
        return config

    def to_properties(self) -> dict[str, str]:
        """Return RocketMQ's keys with the values in use, sorted."""
        return masked_settings(super(BrokerConfig, self).to_properties())


_RANGES: dict[str, tuple[int, int]] = {
    "broker_id": (0, 2**63 - 1),
    "fetch_namesrv_addr_interval": (100, 86_400_000),
    "register_name_server_period": (10_000, 60_000),
    "register_broker_timeout_mills": (100, 60_000),
    "split_registration_size": (2, 1_000_000),
    "broker_heartbeat_interval": (100, 60_000),
    "forward_timeout": (100, 60_000),
    "broker_not_active_timeout_millis": (500, 600_000),
    "listen_port": (0, 65_535),
    "ha_listen_port": (-1, 65_535),
    "ha_send_heartbeat_interval": (100, 600_000),
    "ha_housekeeping_interval": (1_000, 3_600_000),
    "ha_transfer_batch_size": (_KIB, 2 * _MIB),
    "ha_max_gap_not_in_sync": (0, 2**40),
    "in_sync_replicas": (1, 32),
    "min_in_sync_replicas": (1, 32),
    "controller_heart_beat_timeout_mills": (100, 600_000),
    "slave_timeout": (10, 600_000),
    "connections_per_address_max": (0, 10_000_000),
    "requests_per_second_max": (0, 10_000_000),
    "frame_deadline_seconds": (0, 3_600),
    "partial_frames_max": (0, 2**40),
    "write_buffer_max": (0, 2**31 - 1),
    "waiting_answers_max": (0, 2**40),
    "metrics_otel_cardinality_limit": (0, 1_000_000),
    "flush_interval_commit_log": (1, 60_000),
    "sync_flush_timeout": (100, 600_000),
    "sync_flush_waiting_max": (64 * _KIB, _GIB),
    "open_files_max": (0, 10_000_000),
    "max_hash_slot_num": (1, 100_000_000),
    "max_index_num": (2, 107_000_000),
    "default_query_max_num": (1, 1_000),
    "max_msgs_num_batch": (1, 1_000),
    "wait_time_mills_in_send_queue": (1, 600_000),
    "large_batches_max": (1, 10_000),
    "async_flush_waiting_max": (_MIB, 64 * _GIB),
    "queue_entries_max": (_MIB, 64 * _GIB),
    "mapped_file_size_commit_log": (64 * _KIB, _GIB * 2 - 1),
    "mapped_file_size_consume_queue": (CONSUME_QUEUE_UNIT_SIZE, _GIB),
    "accept_log_end": (-1, 2**63 - 1),
    "max_message_size": (1, 16 * _MIB - 128 * _KIB),
    "file_reserved_time": (1, 1_000_000),
    "disk_max_used_space_ratio": (10, 100),
    "disk_space_clean_forcibly_ratio": (30, 100),
    "disk_space_warning_level_ratio": (35, 100),
    "delete_file_batch_max": (1, 10_000),
    "delete_commit_log_files_interval": (0, 600_000),
    "delete_consume_queue_files_interval": (0, 600_000),
    "clean_resource_interval": (100, 600_000),
    "timer_roll_window_slot": (2, SLOT_COUNT - _BLANK_SLOTS),
    "timer_max_delay_sec": (1, 2**31 - 1),
    "timer_flush_interval_ms": (100, 60_000),
    "timer_congest_num_each_slot": (1, 2**31 - 1),
    "mapped_file_size_timer_log": (64 * _KIB, _GIB),
    "max_lmq_consume_queue_num": (1, 10_000_000),
    "flush_consumer_offset_interval": (100, 600_000),
    "default_topic_queue_nums": (1, 1_024),
    "topics_max": (100, 10_000_000),
    "groups_max": (100, 10_000_000),
    "broker_permission": (0, 6),
    "channel_expired_timeout": (1_000, 3_600_000),
    "rebalance_lock_max_live_time": (1_000, 3_600_000),
    "rebalance_lock_grace_time": (0, 3_600_000),
    "max_transfer_count_on_message_in_memory": (1, 1_000_000),
    "max_transfer_bytes_on_message_in_memory": (_KIB, 12 * _MIB),
    "short_polling_time_mills": (10, 60_000),
    "parked_pulls_max": (0, 10_000_000),
    "parked_pulls_size_max": (0, 2**40),
    "transaction_time_out": (0, 86_400_000),
    "transaction_check_interval": (100, 3_600_000),
    "transaction_check_max": (1, 1_000_000),
    "transaction_op_msg_max_size": (1, _MIB),
    "transaction_op_batch_interval": (10, 600_000),
    "pop_polling_size": (1, 1_000_000),
    "max_pop_polling_size": (0, 10_000_000),
    "pop_checkpoints_max": (1, 10_000_000),
    "pop_inflight_message_threshold": (0, 2**63 - 1),
    "pop_from_retry_probability": (0, 100),
    "default_pop_share_queue_num": (-1, 2**31 - 1),
    "reply_pushes_max": (4, 1_000_000),
    "reply_pushes_size_max": (_MIB, 2**40),
}
_CHOICES: dict[str, tuple[object, ...]] = {
    "flush_disk_type": ("ASYNC_FLUSH", "SYNC_FLUSH"),
    "broker_role": ("ASYNC_MASTER", "SYNC_MASTER", "SLAVE"),
    "timer_precision_ms": (100, 200, 500, 1_000),
    "default_message_request_mode": ("PULL", "POP"),
}
IMPLIED_PATHS = {
    "storePathCommitLog": "commitlog",
    "storePathConsumeQueue": "consumequeue",
    "storePathIndex": "index",
    "storeCheckpoint": "checkpoint",
    "abortFile": "abort",
}
