"""A running broker's state, put together once: its tables, its store, and the parts that handlers work on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, NamedTuple

from orbitmq.broker.access.control import AccessControl
from orbitmq.broker.config import BrokerConfig
from orbitmq.broker.delivery.delay import DelayQueues, parse_delay_offsets
from orbitmq.broker.delivery.delay_service import DelayService
from orbitmq.broker.delivery.filters import Filters, compile_or_error
from orbitmq.broker.delivery.pulls import Pulls
from orbitmq.broker.groups.auto_creation import AutoCreation
from orbitmq.broker.groups.configs import GroupConfigs
from orbitmq.broker.groups.consumer_queries import ConsumerQueries
from orbitmq.broker.groups.members import GroupMembers
from orbitmq.broker.groups.membership import Membership
from orbitmq.broker.groups.offsets import GroupOffsets
from orbitmq.broker.groups.queue_locks import QueueLocks
from orbitmq.broker.groups.registry import GroupRegistry
from orbitmq.broker.groups.request_modes import RequestModes
from orbitmq.broker.groups.topic_routes import Found, RouteLookup
from orbitmq.broker.monitoring.creations import CreationTimes
from orbitmq.broker.monitoring.half_counts import HalfCounts, parse_counts
from orbitmq.broker.monitoring.runtime_info import RuntimeInfo
from orbitmq.broker.monitoring.stats import BrokerStats
from orbitmq.broker.persistence import ConfigFiles
from orbitmq.broker.pop.service import PopService
from orbitmq.broker.registration.addresses import BrokerAddress
from orbitmq.broker.replication.follower import Follower
from orbitmq.broker.replication.listener import FollowRules, SlaveListener
from orbitmq.broker.replication.metadata import AskMaster, MasterProgress, MasterTables, ask_no_master
from orbitmq.broker.replication.slow_readers import SlowReaders
from orbitmq.broker.sending.answers import SendAnswers
from orbitmq.broker.sending.large_batches import LargeBatches
from orbitmq.broker.sending.properties import StoredProperties
from orbitmq.broker.sending.queue_resolver import QueueResolver
from orbitmq.broker.sending.reply_pushes import ReplyPushes
from orbitmq.broker.sending.tables import SendTables
from orbitmq.broker.settings.changes import RunTimeSettings, Use, kept_without_effect
from orbitmq.broker.timers.opening import open_timers
from orbitmq.broker.topics.logical_queues import Ask, StaticTopics, ask_no_broker
from orbitmq.broker.topics.registry import Announced, TopicRegistry
from orbitmq.broker.topics.static_topic_table import StaticTopicTable
from orbitmq.broker.topics.system_topics import closed_topics, system_topic_names
from orbitmq.broker.topics.table import TopicTable
from orbitmq.broker.transactions.rules import CheckRules
from orbitmq.broker.transactions.service import TransactionChecks, TransactionService
from orbitmq.broker.transactions.transactions import Transactions
from orbitmq.clock import Clock
from orbitmq.errors import InvalidExpression, StoreError
from orbitmq.files import read_generations, read_table
from orbitmq.filter import PropertyFilter
from orbitmq.model.topic import Perm
from orbitmq.net.security.server_security import ServerSecurity
from orbitmq.store import Store
from orbitmq.store.local_disk import LocalDisk
from orbitmq.store.retention.rules import HOUR_MS
from orbitmq.store.sync.delivery_progress import DeliveryProgress

log = logging.getLogger(__name__)


class StoredTables(NamedTuple):
    """The tables that outlive a run."""

    topics: TopicTable
    groups: GroupConfigs
    offsets: GroupOffsets
    mappings: StaticTopicTable


class BrokerService:
    """The broker's state, owned by the event loop. Each family of handlers is given its part; see `handlers`.

    Args:
        access: users and rules, and the guard at the port.
        announce: tells every NameServer of a changed topic table, then calls back; see `registration`.
        security: what stands at the port.
        monotonic: the clock that deadlines are counted on: setting the wall clock moves none of them.
        ask_route: asks a NameServer for the readable queues of a topic; see `assignments`.
        ask_broker: asks another broker about a static topic.
        ask_master: asks a slave's master for its tables.
        use_settings: lets settings that were changed count; calls `use` here.
        health: describes how the broker is doing, as a JSON document.

    Raises:
        StoreError: delayOffset.json cannot be read.
        OSError: the disk does not give the timers' files.
    """

    def __init__(
        self,
        config: BrokerConfig,
        tables: StoredTables,
        store: Store,
        *,
        access: AccessControl,
        address: BrokerAddress,
        files: ConfigFiles,
        announce: Callable[[Announced | None], None],
        security: ServerSecurity,
        clock: Clock,
        monotonic: Clock,
        random: Random,
        health: Callable[[], dict[str, Any]] = dict,
        ask_route: Callable[[str], Awaitable[Found]],
        ask_broker: Ask = ask_no_broker,
        ask_master: AskMaster = ask_no_master,
        use_settings: Use = lambda _config, then: then(),
    ) -> None:
        self.config = config
        self.access = access
        self.settings = RunTimeSettings(lambda: self.config, use_settings, kept_without_effect(config))
        self.address = address
        self.monotonic = monotonic
        self.is_readable = bool(config.broker_permission & Perm.READ)
        self.is_writable = bool(config.broker_permission & Perm.WRITE)
        self.random = random
        self.health = health
        self.store = store
        self.follower = Follower(
            store,
            config.mapped_file_size_commit_log,
            master=config.ha_master_address,
            heartbeat_ms=config.ha_send_heartbeat_interval,
            silence_ms=config.ha_housekeeping_interval,
        )
        """Of a slave: what copies the master's log."""
        self.log_end_at_start = store.max_physical_offset
        self.slave_listener = SlaveListener(store, follow_rules(config), monotonic)
        self.stats = BrokerStats(
            clock(),
            flows_max=config.metrics_otel_cardinality_limit,
            monotonic_ms=monotonic(),
            system_topics=system_topic_names(config),
        )
        self.topic_creations = CreationTimes(monotonic)
        self.group_creations = CreationTimes(monotonic)
        static = StaticTopics(tables.mappings, files.save_mappings, broker_name=config.broker_name, ask=ask_broker)
        self.topics = TopicRegistry(tables.topics, files.save_topics, announce, static, has_lmq=config.enable_lmq)
        self.groups = GroupRegistry(tables.groups, files.save_groups)
        self.admissions = AutoCreation(self.groups, self.topics, files.topic_ticket, files.group_ticket)
        self.offsets = tables.offsets
        self.membership = Membership(
            GroupMembers(),
            silence_ms=config.channel_expired_timeout,
            clock=monotonic,
            is_notifying=config.notify_consumer_ids_changed_enable,
        )
        self.consumer_queries = ConsumerQueries(self.membership.members)
        self.locks = QueueLocks(config.rebalance_lock_max_live_time)
        self.filters = Filters(
            takes_sql92=config.enable_property_filter,
            filters_retries=config.filter_support_retry,
            compile_aside=_compile_aside,
        )
        if config.enable_property_filter:
            compile_or_error("TRUE")  # makes the parser, which takes a tenth of a second
        slow_readers = SlowReaders(store, tables.groups, lambda: self.slave_listener.slaves)
        self.pulls = Pulls(
            store,
            self.stats,
            monotonic,
            held_max=config.parked_pulls_max,
            held_size_max=config.parked_pulls_size_max,
            count_max=config.max_transfer_count_on_message_in_memory,
            size_max=config.max_transfer_bytes_on_message_in_memory,
            suggest=slow_readers.suggest if config.slave_read_enable else None,
        )
        delayed = read_table(files.delays_path, parse_delay_offsets) or ()
        notes = DeliveryProgress(LocalDisk(), files.delivered_path)
        queues = DelayQueues(
            store, self.topics, config.delay_levels, *delayed, notes=notes, wall_ms=clock(), now_ms=monotonic()
        )
        self.delays = DelayService(queues, files.delays_path, clock, monotonic)
        self.transactions = self._make_transactions(files)
        self.request_modes = RequestModes(
            files.request_modes_path,
            default=config.default_message_request_mode,
            share_queue_count=config.default_pop_share_queue_num,
        )
        self.routes = RouteLookup(ask_route, monotonic)
        self.pop = PopService(
            config,
            store,
            self.topics,
            self.groups,
            self.offsets,
            self.stats,
            ordered_path=files.ordered_path,
            host=address.host,
            clock=clock,
            monotonic=monotonic,
            random=random,
        )
        self.timers = open_timers(
            config, store, self.topics, files.timer_metrics_path, clock=clock, monotonic=monotonic, random=random
        )
        self.metadata = MasterTables(
            ask_master,
            lambda: self.follower.master_broker,
            self.topics,
            self.groups,
            self.offsets,
            store.max_offset,
            clock,
            MasterProgress(ask_master, lambda: store.max_physical_offset, self.delays, self.timers),
        )
        """Of a slave: what takes over the master's tables."""
        self.sending = self._send_tables(LargeBatches(config.large_batches_max))
        self.reply_pushes = ReplyPushes(
            self.membership.members,
            count_max=config.reply_pushes_max,
            size_max=config.reply_pushes_size_max,
        )
        self.transaction_checks = TransactionChecks(
            self.membership.members, host=address.host, broker_name=config.broker_name
        )
        self.transaction_service = TransactionService(
            self.transactions,
            self.transaction_checks,
            files.transactions_path,
            check_interval_ms=config.transaction_check_interval,
            op_interval_ms=config.transaction_op_batch_interval,
            clock=clock,
            monotonic=monotonic,
        )
        self.runtime_info = RuntimeInfo(
            config,
            store,
            self.stats,
            security,
            held_count=lambda: self.pulls.held_count,
            timers=self.timers.stats,
            delays=self.delays.progress,
        )

    def use(self, config: BrokerConfig) -> None:
        """Let settings that may change while the broker runs count from now on; see `settings.changes`."""
        self.config = config
        self.is_readable = bool(config.broker_permission & Perm.READ)
        self.is_writable = bool(config.broker_permission & Perm.WRITE)
        self.topics.table.allow(auto_create_enable=config.auto_create_topic_enable, count_max=config.topics_max)
        self.groups.configs.allow(auto_create_enable=config.auto_create_subscription_group, count_max=config.groups_max)
        self.transactions.rules = check_rules(config)
        self.sending = self._send_tables(self.sending.large_batches)

    def _make_transactions(self, files: ConfigFiles) -> Transactions:
        config = self.config
        try:
            counted = read_generations(files.transactions_path, parse_counts) or ()
        except StoreError as error:  # only metrics rest on it: no reason not to start
            log.warning("open transactions are counted from 0: %s", error)
            counted = ()
        return Transactions(
            self.store,
            self.topics,
            self.offsets,
            HalfCounts(*counted),
            check_rules(config),
            op_size_max=config.transaction_op_msg_max_size,
        )

    def _send_tables(self, large_batches: LargeBatches) -> SendTables:
        config, host = self.config, self.address.host
        return SendTables(
            self.store,
            QueueResolver(
                self.topics,
                self.groups,
                ip=host.ip,
                is_writable=self.is_writable,
                random=self.random,
                is_ordered=lambda group: self.locks.is_ordered(group, self.monotonic()),
                closed=closed_topics(config),
            ),
            StoredProperties(
                config.broker_cluster_name,
                region_id=config.region_id,
                trace_on=config.trace_on,
                has_lmq=self.store.lmq is not None,
            ),
            SendAnswers(
                self.store,
                host=host,
                region_id=config.region_id,
                trace_on=config.trace_on,
                wait_replicated=self.slave_listener.wait_replicated if config.broker_role == "SYNC_MASTER" else None,
            ),
            self.delays,
            self.timers,
            self.stats,
            config.max_message_size,
            config.flush_disk_type == "SYNC_FLUSH" or config.broker_role == "SYNC_MASTER",
            config.wait_time_mills_in_send_queue if config.broker_fast_failure_enable else None,
            large_batches,
            self.admissions,
            None if config.reject_transaction_message else self.transactions,
        )


def _compile_aside(expression: str, done: Callable[[PropertyFilter | InvalidExpression], None]) -> None:
    """Compile in a thread, which lets the event loop have every second turn."""
    compiling = asyncio.get_running_loop().run_in_executor(None, compile_or_error, expression)
    compiling.add_done_callback(lambda found: None if found.cancelled() else done(found.result()))


def follow_rules(config: BrokerConfig) -> FollowRules:
    """Return how slaves are served."""
    return FollowRules(
        config.mapped_file_size_commit_log,
        heartbeat_ms=config.ha_send_heartbeat_interval,
        silence_ms=config.ha_housekeeping_interval,
        run_size_max=config.ha_transfer_batch_size,
        gap_max=config.ha_max_gap_not_in_sync,
        slave_count=max(config.in_sync_replicas - 1, 1),
        timeout_ms=config.slave_timeout,
    )


def check_rules(config: BrokerConfig) -> CheckRules:
    """Return when producers are asked about their transactions."""
    return CheckRules(config.transaction_time_out, config.transaction_check_max, config.file_reserved_time * HOUR_MS)
