"""Requests about a master's slaves: who follows (907), and what only a slave is told (908). Nobody follows yet.

Source: Java AdminBrokerProcessor.getBrokerHaStatus, resetMasterFlushOffset.
"""

from __future__ import annotations

from orbitmq.net.dispatch.handlers import Call, Handlers, Reply
from orbitmq.store import Store
from orbitmq.wire.bodies.monitoring.replication import encode_replication_status
from orbitmq.wire.headers import GetReplicationStatus, ResetMasterFlushOffset

handlers: Handlers[Store] = Handlers()


@handlers.on(GetReplicationStatus)
def get_replication_status(store: Store, call: Call[GetReplicationStatus]) -> Reply:
    """Answer with where the log ends, and that no slave follows."""
    return Reply(body=encode_replication_status(store.max_physical_offset))


@handlers.on(ResetMasterFlushOffset)
def reset_master_flush_offset(store: Store, call: Call[ResetMasterFlushOffset]) -> Reply:
    """Do nothing: this is a master, which knows its own log. Java's masters do the same."""
    return Reply()
