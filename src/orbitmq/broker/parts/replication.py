"""Copies of the log: what serves slaves, and what a slave follows its master with."""

from __future__ import annotations

from orbitmq.broker.config import BrokerConfig
from orbitmq.broker.parts.context import BrokerContext, BrokerLinks
from orbitmq.broker.parts.sends import Sends
from orbitmq.broker.parts.tables import Tables
from orbitmq.broker.replication.follower import Follower
from orbitmq.broker.replication.listener import FollowRules
from orbitmq.broker.replication.metadata import PERIOD_S, MasterProgress, MasterTables

_MEMBER_PERIOD_S = 1.0
"""How often a member of a controlled group takes over its master's tables: offsets go back by so much after a failover."""


class Following:
    """Of a slave: what copies the master's log, and what takes over its tables."""

    def __init__(self, context: BrokerContext, links: BrokerLinks, tables: Tables, sends: Sends) -> None:
        config, store = context.config, context.store
        self.log = Follower(
            store,
            config.mapped_file_size_commit_log,
            links.ask_master,
            master=config.ha_master_address,
            has_name_servers=bool(config.namesrv_addr),
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
