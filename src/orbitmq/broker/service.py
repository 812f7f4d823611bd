"""A running broker's state, put together once, part by part. Each part is made from those before it."""

from __future__ import annotations

from orbitmq.broker.config import BrokerConfig
from orbitmq.broker.monitoring.runtime_info import RuntimeInfo
from orbitmq.broker.parts.clients import Clients
from orbitmq.broker.parts.context import BrokerContext, BrokerLinks
from orbitmq.broker.parts.delivery import Delivery
from orbitmq.broker.parts.monitoring import Monitoring
from orbitmq.broker.parts.replication import Following, follow_rules
from orbitmq.broker.parts.sends import Sends
from orbitmq.broker.parts.tables import StoredTables, Tables
from orbitmq.broker.replication.listener import SlaveListener
from orbitmq.broker.settings.changes import RunTimeSettings, kept_without_effect
from orbitmq.broker.topics.system_topics import system_topic_names
from orbitmq.model.topic import Perm


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
        self.sends = Sends(context, self.tables, self.clients, stats, self.slave_listener)
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
