"""Requests about a master's slaves: the slaves (907), where a slave would follow (906), what only slaves are told (905, 908);
and of controlled groups the epochs of the log (1007) and a changed role (1008).

Source: Java AdminBrokerProcessor.getBrokerHaStatus, updateBrokerHaInfo, resetMasterFlushOffset, notifyMinBrokerIdChange,
getBrokerEpochCache, notifyBrokerRoleChanged.
"""

from __future__ import annotations

from orbitmq.broker.service import BrokerService
from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected
from orbitmq.net.dispatch.handlers import Call, Handlers, Reply
from orbitmq.wire.bodies.controller import BrokerEpochs, Epoch, encode_epochs
from orbitmq.wire.bodies.stats import encode_replication_status
from orbitmq.wire.headers import (
    ExchangeReplicationInfo,
    ExchangeReplicationInfoResponse,
    GetBrokerEpochs,
    GetReplicationStatus,
    NotifyBrokerRoleChanged,
    NotifyMinBrokerIdChange,
    ResetMasterFlushOffset,
)

handlers: Handlers[BrokerService] = Handlers()


@handlers.on(GetReplicationStatus)
def get_replication_status(broker: BrokerService, call: Call[GetReplicationStatus]) -> Reply:
    """Answer with where the log ends, and how far each slave is."""
    return Reply(
        body=encode_replication_status(
            broker.store.max_physical_offset,
            broker.slave_listener.slaves,
            broker.following.log.master if broker.config.is_slave else None,
        )
    )


@handlers.on(ExchangeReplicationInfo)
def exchange_replication_info(broker: BrokerService, call: Call[ExchangeReplicationInfo]) -> Reply:
    """Answer a slave with the addresses that this broker registers with; a master that is told of a master stays one."""
    if call.header.master_ha_address is not None:
        return Reply()
    return Reply(
        header=ExchangeReplicationInfoResponse(
            master_ha_address=broker.address.replication,
            master_flush_offset=broker.log_end_at_start,
            master_address=broker.address.announced,
        )
    )


@handlers.on(GetBrokerEpochs)
def get_broker_epochs(broker: BrokerService, call: Call[GetBrokerEpochs]) -> Reply:
    """Answer with which part of the log each master has written."""
    if broker.context.role is None:
        raise Rejected(ResponseCode.SYSTEM_ERROR, "this request only for controllerMode ")
    starts = [*broker.context.epochs]
    ends = [entry.start for entry in starts[1:]] + [2**63 - 1] * bool(starts)
    parts = tuple(Epoch(entry.epoch, entry.start, end) for entry, end in zip(starts, ends, strict=True))
    end = broker.store.max_physical_offset
    return Reply(
        body=encode_epochs(
            BrokerEpochs(
                broker.config.broker_cluster_name,
                broker.config.broker_name,
                broker.context.role.broker_id,
                parts,
                end,
            )
        )
    )


@handlers.on(NotifyBrokerRoleChanged)
def notify_role_changed(broker: BrokerService, call: Call[NotifyBrokerRoleChanged]) -> Reply:
    """Let this broker ask its controllers for its role, if it has any: any client may have sent this."""
    if broker.context.role is not None:
        broker.context.role.changed()
    return Reply()


@handlers.on(ResetMasterFlushOffset)
def reset_master_flush_offset(broker: BrokerService, call: Call[ResetMasterFlushOffset]) -> Reply:
    """Do nothing: this is a master, which knows its own log. Java's masters do the same."""
    return Reply()


@handlers.on(NotifyMinBrokerIdChange)
def notify_min_broker_id_change(broker: BrokerService, call: Call[NotifyMinBrokerIdChange]) -> Reply:
    """Do nothing: slaves look for another master then, and this is one. Java's masters do the same."""
    return Reply()
