"""The ways of messages to consumers: filters, pulls and POP."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from orbitmq.broker.delivery.filters import Filters, compile_or_error
from orbitmq.broker.delivery.pulls import Pulls
from orbitmq.broker.monitoring.stats import BrokerStats
from orbitmq.broker.parts.context import BrokerContext
from orbitmq.broker.parts.tables import Tables
from orbitmq.broker.pop.service import PopService
from orbitmq.broker.replication.listener import SlaveListener
from orbitmq.broker.replication.slow_readers import SlowReaders
from orbitmq.errors import InvalidExpression
from orbitmq.filter import PropertyFilter


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
