"""Requests about a master's slaves: the slaves (907), where a slave would follow (906), what only slaves are told (905, 908);
and of controlled groups the epochs of the log (1007) and a changed role (1008).

Source: Java AdminBrokerProcessor.getBrokerHaStatus, updateBrokerHaInfo, resetMasterFlushOffset, notifyMinBrokerIdChange,
getBrokerEpochCache, notifyBrokerRoleChanged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from orbitmq.broker.registration.addresses import BrokerAddress
from orbitmq.broker.replication.role import ControlledRole
from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected
from orbitmq.ha.epochs import Epochs
from orbitmq.net.dispatch.handlers import Call, Handlers, Reply
from orbitmq.store import Store
from orbitmq.wire.bodies.controller import BrokerEpochs, Epoch, encode_epochs
from orbitmq.wire.bodies.stats import SlaveStatus, encode_replication_status
from orbitmq.wire.headers import (
    ExchangeReplicationInfo,
    ExchangeReplicationInfoResponse,
    GetBrokerEpochs,
    GetReplicationStatus,
    NotifyBrokerRoleChanged,
    NotifyMinBrokerIdChange,
    ResetMasterFlushOffset,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationTables:
    """A master as slaves see it.

    Args:
        log_end_at_start: where the log ended when the broker started.
        slaves: returns those that follow now.
        master: returns the master that a slave follows, empty when unknown; None: this is a master.
        names: of the broker's cluster, and its own.
        role: what controllers have made of this broker; None: its settings say what it is.
        epochs: of its log, where it has a role.
    """

    store: Store
    address: BrokerAddress
    log_end_at_start: int
    slaves: Callable[[], Sequence[SlaveStatus]]
    master: Callable[[], str | None]
    names: tuple[str, str] = ("", "")
    role: ControlledRole | None = None
    epochs: Epochs = ()


handlers: Handlers[ReplicationTables] = Handlers()


@handlers.on(GetReplicationStatus)
def get_replication_status(tables: ReplicationTables, call: Call[GetReplicationStatus]) -> Reply:
    """Answer with where the log ends, and how far each slave is."""
    return Reply(body=encode_replication_status(tables.store.max_physical_offset, tables.slaves(), tables.master()))


@handlers.on(ExchangeReplicationInfo)
def exchange_replication_info(tables: ReplicationTables, call: Call[ExchangeReplicationInfo]) -> Reply:
    """Answer a slave with the addresses that this broker registers with; a master that is told of a master stays one."""
    if call.header.master_ha_address is not None:
        return Reply()
    return Reply(
        header=ExchangeReplicationInfoResponse(
            master_ha_address=tables.address.replication,
            master_flush_offset=tables.log_end_at_start,
            master_address=tables.address.announced,
        )
    )


@handlers.on(GetBrokerEpochs)
def get_broker_epochs(tables: ReplicationTables, call: Call[GetBrokerEpochs]) -> Reply:
    """Answer with which part of the log each master has written."""
    if tables.role is None:
        raise Rejected(ResponseCode.SYSTEM_ERROR, "this request only for controllerMode ")
    starts = [*tables.epochs]
    ends = [entry.start for entry in starts[1:]] + [2**63 - 1] * bool(starts)
    parts = tuple(Epoch(entry.epoch, entry.start, end) for entry, end in zip(starts, ends, strict=True))
    end = tables.store.max_physical_offset
    return Reply(body=encode_epochs(BrokerEpochs(*tables.names, tables.role.broker_id, parts, end)))


@handlers.on(NotifyBrokerRoleChanged)
def notify_role_changed(tables: ReplicationTables, call: Call[NotifyBrokerRoleChanged]) -> Reply:
    """Let this broker ask its controllers for its role, if it has any: any client may have sent this."""
    if tables.role is not None:
        tables.role.changed()
    return Reply()


@handlers.on(ResetMasterFlushOffset)
def reset_master_flush_offset(tables: ReplicationTables, call: Call[ResetMasterFlushOffset]) -> Reply:
    """Do nothing: this is a master, which knows its own log. Java's masters do the same."""
    return Reply()


@handlers.on(NotifyMinBrokerIdChange)
def notify_min_broker_id_change(tables: ReplicationTables, call: Call[NotifyMinBrokerIdChange]) -> Reply:
    """Do nothing: slaves look for another master then, and this is one. Java's masters do the same."""
    return Reply()
