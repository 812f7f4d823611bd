"""Requests of brokers: an id, a registration, heartbeats, the master, elections, another sync set.

Source: Java ControllerRequestProcessor, DLedgerController.
"""

from __future__ import annotations

from typing import Any

from orbitmq.codes import ResponseCode
from orbitmq.controller import commands
from orbitmq.controller.liveness import BrokerKey
from orbitmq.controller.service import ControllerService
from orbitmq.controller.values import CommandResult, LiveMembers, ReplicaGroup, Standing
from orbitmq.errors import Rejected
from orbitmq.net.dispatch.handlers import Call, Handlers, Later, Reply
from orbitmq.wire.bodies.controller import SyncSet, decode_sync_set, encode_election, encode_sync_set
from orbitmq.wire.headers import (
    AlterSyncStateSet,
    AlterSyncStateSetResponse,
    ApplyBrokerId,
    ApplyBrokerIdResponse,
    BrokerHeartbeat,
    ElectMaster,
    ElectMasterResponse,
    GetNextBrokerId,
    GetNextBrokerIdResponse,
    GetReplicaInfo,
    GetReplicaInfoResponse,
    RegisterBrokerToController,
    RegisterBrokerToControllerResponse,
)

handlers: Handlers[ControllerService] = Handlers()

NO_BROKER = -1
"""The id of a broker that has none yet, and that no request names."""


@handlers.on(BrokerHeartbeat)
def heartbeat_received(service: ControllerService, call: Call[BrokerHeartbeat]) -> Reply:
    """Note that a broker is alive, and how long its log is; every controller does, leader or not."""
    header = call.header
    if header.broker_id is None:
        raise Rejected(ResponseCode.CONTROLLER_INVALID_REQUEST, "Heart beat with empty brokerId")
    nothing = Standing()
    standing = Standing(
        nothing.epoch if header.epoch is None else header.epoch,
        nothing.max_offset if header.max_offset is None else header.max_offset,
        nothing.priority if header.election_priority is None else header.election_priority,
        header.log_complete,
    )
    key = BrokerKey(header.cluster_name, header.broker_name, header.broker_id)
    service.heartbeat_received(key, standing, call.connection.id, header.heartbeat_timeout_mills)
    return Reply(remark="Heart beat success")


@handlers.on(GetNextBrokerId)
def get_next_broker_id(service: ControllerService, call: Call[GetNextBrokerId]) -> Later:
    """Tell which id the next member of a group gets."""
    header = call.header

    async def answer() -> Reply:
        await service.read()
        group = service.replicas.groups.get(header.broker_name)
        next_id = group.next_id if group is not None else 1
        answer = GetNextBrokerIdResponse(
            cluster_name=header.cluster_name, broker_name=header.broker_name, next_broker_id=next_id
        )
        return Reply(header=answer)

    return service.answer(call, answer())


@handlers.on(ApplyBrokerId)
def apply_broker_id(service: ControllerService, call: Call[ApplyBrokerId]) -> Later:
    """Make a broker a member of its group."""
    header = call.header
    names = ApplyBrokerIdResponse(cluster_name=header.cluster_name, broker_name=header.broker_name)
    command = commands.ApplyBrokerId(
        cluster=header.cluster_name,
        name=header.broker_name,
        broker_id=header.applied_broker_id,
        address=header.register_check_code.split(";")[0],
        check_code=header.register_check_code,
    )

    async def answer() -> Reply:
        outcome = await service.change(command)
        return Reply(outcome.code, outcome.remark, names)

    return service.answer(call, answer())


@handlers.on(RegisterBrokerToController)
def register(service: ControllerService, call: Call[RegisterBrokerToController]) -> Later:
    """Note a member's address, and tell it the master, if there is a living one.

    Another address than that of a living member is refused (Java takes it): it is another broker with a copy of its identity.
    """
    header = call.header
    command = commands.RegisterBroker(
        name=header.broker_name, broker_id=header.broker_id, address=header.broker_address
    )

    async def answer() -> Reply:
        before = service.replicas.find(header.broker_name)
        if before is not None and service.consensus.is_leader:
            _refuse_copy(before, header, service.living(before))
        outcome = await service.change(command)
        group = outcome.group
        master: dict[str, Any] = {}
        if not outcome.code and group is not None and group.master in service.living(group).alive:
            master = _master(group) | {"sync_state_set_epoch": group.sync_set_epoch}
        answer = RegisterBrokerToControllerResponse(
            cluster_name=header.cluster_name, broker_name=header.broker_name, **master
        )
        return Reply(outcome.code, outcome.remark, answer, _sync_set(outcome))

    return service.answer(call, answer())


@handlers.on(GetReplicaInfo)
def get_replica_info(service: ControllerService, call: Call[GetReplicaInfo]) -> Later:
    """Return the master of a group; also when the master is lost, until another one is elected."""

    async def answer() -> Reply:
        await service.read()
        group = service.replicas.find(call.header.broker_name)
        if group is None:
            raise Rejected(ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST, "Broker metadata is not existed")
        return Reply(header=GetReplicaInfoResponse(**_master(group)), body=_sync_set(CommandResult(group=group)))

    return service.answer(call, answer())


@handlers.on(ElectMaster)
def elect(service: ControllerService, call: Call[ElectMaster]) -> Later:
    """Elect a master: the one that is there stays, and that is told under a code of its own, which brokers expect."""
    header = call.header
    broker_id = None if header.broker_id == NO_BROKER else header.broker_id
    if header.designate_elect and broker_id is None:
        raise Rejected(ResponseCode.CONTROLLER_INVALID_REQUEST, "no broker is designated")

    async def answer() -> Reply:
        asker, designated = (None, broker_id) if header.designate_elect else (broker_id, None)
        return election_reply(await service.elect(header.broker_name, asker=asker, designated=designated))

    return service.answer(call, answer())


@handlers.on(AlterSyncStateSet)
def alter_sync_set(service: ControllerService, call: Call[AlterSyncStateSet]) -> Later:
    """Let a master change the sync set of its group."""
    header, proposed = call.header, decode_sync_set(call.command.body)

    async def answer() -> Reply:
        group = service.replicas.find(header.broker_name)
        command = commands.AlterSyncSet(
            name=header.broker_name,
            master=header.master_broker_id,
            master_epoch=header.master_epoch,
            sync_set=proposed.ids,
            sync_set_epoch=proposed.epoch,
            living=service.living(group) if group is not None else LiveMembers(),
        )
        outcome = await service.change(command)
        if outcome.code or outcome.group is None:
            return Reply(outcome.code, outcome.remark, AlterSyncStateSetResponse(new_sync_state_set_epoch=0))
        epoch = outcome.group.sync_set_epoch
        return Reply(header=AlterSyncStateSetResponse(new_sync_state_set_epoch=epoch), body=_sync_set(outcome))

    return service.answer(call, answer())


def election_reply(outcome: CommandResult) -> Reply:
    """Return the answer to a request for an election."""
    group = outcome.group
    if group is None or outcome.code not in (ResponseCode.SUCCESS, ResponseCode.CONTROLLER_MASTER_STILL_EXIST):
        return Reply(outcome.code, outcome.remark, ElectMasterResponse())
    header = ElectMasterResponse(**_master(group), sync_state_set_epoch=group.sync_set_epoch)
    addresses = {broker_id: member.address for broker_id, member in group.replicas.items()}
    members = (group.cluster, group.name, addresses) if outcome.is_change else None
    return Reply(outcome.code, outcome.remark, header, encode_election(group.sync_set, members))


def _refuse_copy(group: ReplicaGroup, header: RegisterBrokerToController, living: LiveMembers) -> None:
    address = group.address_of(header.broker_id)
    if header.broker_id in living.alive and address != header.broker_address:
        raise Rejected(
            ResponseCode.CONTROLLER_INVALID_REQUEST,
            f"member {header.broker_id} of {group.name} is alive at {address}: {header.broker_address} has a copy of its "
            "brokerIdentity, and needs an empty directory; if the broker has moved, stop the old one",
        )


def _master(group: ReplicaGroup) -> dict[str, Any]:
    return {
        "master_broker_id": group.master,
        "master_address": group.address_of(group.master),
        "master_epoch": group.master_epoch,
    }


def _sync_set(outcome: CommandResult) -> bytes:
    group = outcome.group
    if outcome.code or group is None:
        return b""
    return encode_sync_set(SyncSet(group.sync_set, group.sync_set_epoch))
