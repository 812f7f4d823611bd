"""A running broker's state, put together once, part by part. Each part is made from those before it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from orbitmq.broker.config import BrokerConfig
from orbitmq.broker.context import BrokerContext, BrokerLinks
from orbitmq.broker.delivery.filters import Filters, compile_or_error
from orbitmq.broker.delivery.pulls import Pulls
from orbitmq.broker.groups.consumer_queries import ConsumerQueries
from orbitmq.broker.groups.members import GroupMembers
from orbitmq.broker.groups.membership import Membership
from orbitmq.broker.groups.queue_locks import QueueLocks
from orbitmq.broker.groups.topic_routes import RouteLookup
from orbitmq.broker.monitoring.creations import CreationTimes
from orbitmq.broker.monitoring.runtime_info import RuntimeInfo
from orbitmq.broker.monitoring.stats import BrokerStats
from orbitmq.broker.pop.service import PopService
from orbitmq.broker.replication.follower import Follower
from orbitmq.broker.replication.listener import FollowRules, SlaveListener
from orbitmq.broker.replication.metadata import PERIOD_S, MasterProgress, MasterTables
from orbitmq.broker.replication.slow_readers import SlowReaders
from orbitmq.broker.sends import Sends
from orbitmq.broker.settings.changes import RunTimeSettings, kept_without_effect
from orbitmq.broker.tables import StoredTables, Tables
from orbitmq.broker.topics.system_topics import system_topic_names
from orbitmq.errors import InvalidExpression
from orbitmq.filter import PropertyFilter
from orbitmq.model.topic import Perm
from orbitmq.net.dispatch.peer import Peer

_MEMBER_PERIOD_S = 1.0
"""How often a member of a controlled group takes over its master's tables: offsets go back by so much after a failover."""


class Clients:
    """The clients of a broker."""

    def __init__(self, context: BrokerContext, links: BrokerLinks) -> None:
        config = context.config
        self.locks = QueueLocks(config.rebalance_lock_max_live_time, config.rebalance_lock_grace_time)
        self.members: GroupMembers[Peer] = GroupMembers()
        self.membership = Membership(
            self.members,
            silence_ms=config.channel_expired_timeout,
            clock=context.monotonic,
            is_notifying=config.notify_consumer_ids_changed_enable,
            locks=self.locks,
        )
        self.queries = ConsumerQueries(self.members)
        self.routes = RouteLookup(links.find_queues, context.monotonic)


class Monitoring:
    """The counters of a broker."""

    def __init__(self, context: BrokerContext) -> None:
        config = context.config
        self.stats = BrokerStats(
            context.clock(),
            flows_max=config.metrics_otel_cardinality_limit,
            monotonic_ms=context.monotonic(),
            system_topics=system_topic_names(config),
        )
        self.topic_creations = CreationTimes(context.monotonic)
        self.group_creations = CreationTimes(context.monotonic)
        self.health: Callable[[], dict[str, Any]] = dict
        """Describes how the broker is doing, as a JSON document; its monitor sets it."""


class Delivery:
    """What consumers are served with."""

    def __init__(self, context: BrokerContext, tables: Tables, stats: BrokerStats, listener: SlaveListener) -> None:
        config, store = context.config, context.store
        self.filters = Filters(
            takes_sql92=config.enable_property_filter,
            filters_retries=config.filter_support_retry,
            compile_aside=_compile_aside,
        )
        if config.enable_property_filter:
            compile_or_error("TRUE")  # makes the parser, which takes a tenth of a second
        slow_readers = SlowReaders(store, tables.groups.configs, lambda: listener.slaves)
        self.pulls = Pulls(
            store,
            stats,
            context.monotonic,
            held_max=config.parked_pulls_max,
            held_size_max=config.parked_pulls_size_max,
            count_max=config.max_transfer_count_on_message_in_memory,
            size_max=config.max_transfer_bytes_on_message_in_memory,
            suggest=slow_readers.suggest if config.slave_read_enable else None,
        )
        self.pop = PopService(
            config,
            store,
            tables.topics,
            tables.groups,
            tables.offsets,
            stats,
            ordered_path=context.files.ordered_path,
            host=context.address.host,
            clock=context.clock,
            monotonic=context.monotonic,
            random=context.random,
        )


def _compile_aside(expression: str, done: Callable[[PropertyFilter | InvalidExpression], None]) -> None:
    """Compile in a thread, which lets the event loop have every second turn."""
    compiling = asyncio.get_running_loop().run_in_executor(None, compile_or_error, expression)
    compiling.add_done_callback(lambda found: None if found.cancelled() else done(found.result()))


class Following:
    """Of a slave: what copies the master's log, and what takes over its tables."""

    def __init__(self, context: BrokerContext, links: BrokerLinks, tables: Tables, sends: Sends) -> None:
        config, store = context.config, context.store
        self.log = Follower(
            store,
            config.mapped_file_size_commit_log,
            links.ask_master,
            master=config.ha_master_address,
            has_name_servers=config.has_name_servers,
            heartbeat_ms=config.ha_send_heartbeat_interval,
            silence_ms=config.ha_housekeeping_interval,
            role=context.role,
        )
        self.tables = MasterTables(
            links.ask_master,
            lambda: self.log.master_broker,
            tables.topics,
            tables.groups,
            tables.offsets,
            store.max_offset,
            context.clock,
            MasterProgress(
                links.ask_master, store.last_stored, sends.delays, sends.timers, context.files.delivered_since_path
            ),
            period_s=PERIOD_S if context.role is None else _MEMBER_PERIOD_S,
            drops_missing=context.role is not None,
        )
        store.on_deleted.append(tables.offsets.forget_topic)
        if context.role is not None:
            # Before it counts as a member of the sync set, for it may be made the master from then on.
            self.log.prepare = self.tables.take_over
            self.log.before_report = self.tables.take_over_waiting


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
        members_min=config.min_in_sync_replicas,
        are_waited_for=config.broker_role == "SYNC_MASTER",
    )


class BrokerService:
    """The broker's state, owned by the event loop. Each family of handlers is given its part; see `handlers`.

    Raises:
        StoreError: delayOffset.json cannot be read.
        OSError: the disk does not give the timers' files.
    """

    def __init__(self, context: BrokerContext, links: BrokerLinks, stored: StoredTables) -> None:
        self.config = config = context.config
        """The settings that count now."""
        self.context = context
        self.store = store = context.store
        self.address = context.address
        self.access = context.access
        self.settings = RunTimeSettings(lambda: self.config, links.use_settings, kept_without_effect(config))
        self.log_end_at_start = store.max_physical_offset
        self.system_topics = system_topic_names(config)
        self.tables = Tables(context, links, stored)
        self.clients = Clients(context, links)
        self.monitoring = Monitoring(context)
        stats = self.monitoring.stats
        self.slave_listener = SlaveListener(store, follow_rules(config), context.monotonic, context.role)
        self.delivery = Delivery(context, self.tables, stats, self.slave_listener)
        self.sends = Sends(context, self.tables, self.clients.members, self.clients.locks, stats, self.slave_listener)
        self.following = Following(context, links, self.tables, self.sends)
        self.runtime_info = RuntimeInfo(
            config,
            store,
            stats,
            context.security,
            held_count=lambda: self.delivery.pulls.held_count,
            timers=self.sends.timers.stats,
            delays=self.sends.delays.progress,
            replication=self.slave_listener.group_facts,
        )

    @property
    def is_readable(self) -> bool:
        """Return True if brokerPermission lets consumers read."""
        return bool(self.config.broker_permission & Perm.READ)

    @property
    def is_unsettled(self) -> bool:
        """Return True if what this broker has may be lost with its master: at a slave of a controlled group."""
        role = self.context.role
        return role is not None and not role.is_master

    @property
    def is_master(self) -> bool:
        """Return True if this broker takes messages by its role: one of its name should."""
        role = self.context.role
        return not self.config.is_slave if role is None else role.is_master

    @property
    def is_writable(self) -> bool:
        """Return True if brokerPermission lets producers write."""
        return bool(self.config.broker_permission & Perm.WRITE)

    def use(self, config: BrokerConfig) -> None:
        """Let settings that may change while the broker runs count from now on; see `settings.changes`."""
        self.config = config
        self.tables.use(config)
        self.sends.use(config)
