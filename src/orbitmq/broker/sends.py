"""The ways of messages into the store: sends, delayed messages, timers, transactions, replies."""

from __future__ import annotations

import logging

from orbitmq.broker.config import BrokerConfig
from orbitmq.broker.context import BrokerContext
from orbitmq.broker.delivery.delay_service import open_delays
from orbitmq.broker.delivery.delivered_copies import DeliveredCopies, begin_to_follow, find_delivered_copies
from orbitmq.broker.groups.members import GroupMembers
from orbitmq.broker.groups.queue_locks import QueueLocks
from orbitmq.broker.monitoring.half_counts import HalfCounts, parse_counts
from orbitmq.broker.monitoring.stats import BrokerStats
from orbitmq.broker.replication.listener import SlaveListener
from orbitmq.broker.sending.answers import SendAnswers
from orbitmq.broker.sending.large_batches import LargeBatches
from orbitmq.broker.sending.properties import StoredProperties
from orbitmq.broker.sending.queue_resolver import QueueResolver
from orbitmq.broker.sending.reply_pushes import ReplyPushes
from orbitmq.broker.sending.tables import SendTables
from orbitmq.broker.tables import Tables
from orbitmq.broker.timers.opening import open_timers
from orbitmq.broker.topics.system_topics import closed_topics
from orbitmq.broker.transactions.rules import CheckRules
from orbitmq.broker.transactions.service import TransactionChecks, TransactionService
from orbitmq.broker.transactions.transactions import Transactions
from orbitmq.errors import StoreError
from orbitmq.files import read_generations
from orbitmq.model.topic import Perm
from orbitmq.net.dispatch.peer import Peer
from orbitmq.store.retention.rules import HOUR_MS

log = logging.getLogger(__name__)


class Sends:
    """What takes messages, and brings those that wait into their queues.

    Raises:
        StoreError: delayOffset.json cannot be read.
        OSError: the disk does not give the timers' files.
    """

    def __init__(
        self,
        context: BrokerContext,
        tables: Tables,
        members: GroupMembers[Peer],
        locks: QueueLocks,
        stats: BrokerStats,
        listener: SlaveListener,
    ) -> None:
        config, files, address = context.config, context.files, context.address
        self._context = context
        self._tables = tables
        self._locks = locks
        self._stats = stats
        self._listener = listener
        if config.is_slave:
            copies = DeliveredCopies()
            begin_to_follow(files.delivered_since_path, context.store.max_physical_offset)
        else:
            copies = find_delivered_copies(context.store, files.delivered_since_path)
        self.delays = open_delays(
            context.store, tables.topics, files, config.delay_levels, copies, context.clock, context.monotonic
        )
        self.timers = open_timers(
            config,
            context.store,
            tables.topics,
            files.timer_metrics_path,
            clock=context.clock,
            monotonic=context.monotonic,
            random=context.random,
            copies=copies,
        )
        self.transactions = self._open_transactions()
        self.transaction_checks = TransactionChecks(members, host=address.host, broker_name=config.broker_name)
        self.transaction_service = TransactionService(
            self.transactions,
            self.transaction_checks,
            files.transactions_path,
            check_interval_ms=config.transaction_check_interval,
            op_interval_ms=config.transaction_op_batch_interval,
            clock=context.clock,
            monotonic=context.monotonic,
        )
        self.reply_pushes = ReplyPushes(
            members, count_max=config.reply_pushes_max, size_max=config.reply_pushes_size_max
        )
        self.sending = self._send_tables(config, LargeBatches(config.large_batches_max))

    def use(self, config: BrokerConfig) -> None:
        """Let settings that may change while the broker runs count from now on."""
        self.transactions.rules = check_rules(config)
        self.sending = self._send_tables(config, self.sending.large_batches)

    def _open_transactions(self) -> Transactions:
        context = self._context
        try:
            counted = read_generations(context.files.transactions_path, parse_counts) or ()
        except StoreError as error:  # only metrics rest on it: no reason not to start
            log.warning("open transactions are counted from 0: %s", error)
            counted = ()
        return Transactions(
            context.store,
            self._tables.topics,
            self._tables.offsets,
            HalfCounts(*counted),
            check_rules(context.config),
            op_size_max=context.config.transaction_op_msg_max_size,
        )

    def _send_tables(self, config: BrokerConfig, large_batches: LargeBatches) -> SendTables:
        context, tables, locks = self._context, self._tables, self._locks
        store, host, is_copied = context.store, context.address.host, config.broker_role == "SYNC_MASTER"
        return SendTables(
            store=store,
            queue_resolver=QueueResolver(
                tables.topics,
                tables.groups,
                ip=host.ip,
                is_writable=bool(config.broker_permission & Perm.WRITE),
                random=context.random,
                is_ordered=lambda group: locks.is_ordered(group, context.monotonic()),
                closed=closed_topics(config),
                awaited=tables.auto_creation.awaited,
            ),
            properties=StoredProperties(
                config.broker_cluster_name,
                region_id=config.region_id,
                trace_on=config.trace_on,
                has_lmq=store.lmq is not None,
            ),
            answers=SendAnswers(
                store,
                host=host,
                region_id=config.region_id,
                trace_on=config.trace_on,
                wait_replicated=self._listener.wait_replicated if is_copied else None,
            ),
            delays=self.delays,
            timers=self.timers,
            stats=self._stats,
            body_size_max=config.max_message_size,
            is_sync=is_copied or config.flush_disk_type == "SYNC_FLUSH",
            wait_ms_max=config.wait_time_mills_in_send_queue if config.broker_fast_failure_enable else None,
            large_batches=large_batches,
            auto_creation=tables.auto_creation,
            transactions=None if config.reject_transaction_message else self.transactions,
        )


def check_rules(config: BrokerConfig) -> CheckRules:
    """Return when producers are asked about their transactions."""
    return CheckRules(config.transaction_time_out, config.transaction_check_max, config.file_reserved_time * HOUR_MS)
