"""Requests of administrators: which controllers there are, the members of groups, cleaning, health.

Source: Java ControllerRequestProcessor, DLedgerController, ReplicasInfoManager.
"""

from __future__ import annotations

import orjson

from orbitmq.codes import ResponseCode
from orbitmq.controller.commands import CleanBrokers
from orbitmq.controller.liveness import BrokerKey
from orbitmq.controller.service import ControllerService
from orbitmq.controller.values import LiveMembers, ReplicaGroup
from orbitmq.errors import FrameError, Rejected
from orbitmq.net.dispatch.handlers import Call, Handlers, Later, Reply
from orbitmq.wire.bodies.controller import BrokerMember, SyncState, decode_broker_names, encode_sync_states
from orbitmq.wire.headers import (
    CleanBrokerData,
    GetControllerMetadata,
    GetControllerMetadataResponse,
    GetHealth,
    GetSyncStates,
    RaftMessages,
)

RAFT_BODY_SIZE_MAX = 16 * 1024 * 1024
"""Bytes of messages of Raft in one request: a snapshot of all groups may be among them."""

handlers: Handlers[ControllerService] = Handlers()


@handlers.on(GetControllerMetadata)
def get_metadata(service: ControllerService, call: Call[GetControllerMetadata]) -> Reply:
    """Tell which controllers there are, and which one leads; every one of them does."""
    leader_id, peers = service.consensus.leader_id, service.consensus.peers
    names = dict(zip(sorted(peers), sorted(service.config.peers), strict=True))
    answer = GetControllerMetadataResponse(
        group=service.config.controller_d_leger_group,
        controller_leader_id=names.get(leader_id) if leader_id is not None else None,
        controller_leader_address=peers.get(leader_id) if leader_id is not None else None,
        is_leader=service.consensus.is_leader,
        peers="".join(f"{names[node]}:{peers[node]};" for node in sorted(peers)),
    )
    return Reply(header=answer)


@handlers.on(RaftMessages, body_size_max=RAFT_BODY_SIZE_MAX)
def take_messages(service: ControllerService, call: Call[RaftMessages]) -> Reply:
    """Take messages of another controller."""
    try:
        refusal = service.consensus.receive(call.header, bytes(call.command.body))
    except FrameError as error:
        refusal = f"messages that cannot be read: {error}"
    return Reply() if refusal is None else Reply(ResponseCode.CONTROLLER_INVALID_REQUEST, refusal)


@handlers.on(GetSyncStates)
def get_sync_states(service: ControllerService, call: Call[GetSyncStates]) -> Later:
    """List the members of groups, in and out of their sync sets; unknown groups are left out."""
    names = decode_broker_names(call.command.body)

    async def answer() -> Reply:
        if not names:
            return Reply()
        await service.read()
        groups = [group for name in dict.fromkeys(names) if (group := service.replicas.find(name)) is not None]
        return Reply(body=encode_sync_states({group.name: sync_state(service, group) for group in groups}))

    return service.answer(call, answer())


@handlers.on(CleanBrokerData)
def clean(service: ControllerService, call: Call[CleanBrokerData]) -> Later:
    """Remove members of a group, or all of it."""
    header = call.header
    broker_ids = _ids(header.broker_controller_ids_to_clean or "")

    async def answer() -> Reply:
        before = service.replicas.find(header.broker_name)
        command = CleanBrokers(
            name=header.broker_name,
            broker_ids=broker_ids,
            is_forced=header.is_clean_living_broker,
            living=service.living(before) if before is not None else LiveMembers(),
            now_ms=call.now_ms,
        )
        outcome = await service.change(command)
        if outcome.is_change and before is not None and outcome.group is not None:
            for broker_id in before.replicas.keys() - outcome.group.replicas.keys():
                service.liveness.forget(BrokerKey(before.cluster, before.name, broker_id))
        return Reply(outcome.code, outcome.remark)

    return service.answer(call, answer())


@handlers.on(GetHealth)
def get_health(service: ControllerService, call: Call[GetHealth]) -> Reply:
    """Tell how this controller is doing, as a JSON document."""
    return Reply(body=orjson.dumps(service.health()))


def sync_state(service: ControllerService, group: ReplicaGroup) -> SyncState:
    """Return the members of a group, in and out of its sync set."""
    alive = service.living(group).alive
    members = [
        BrokerMember(group.name, broker_id, group.replicas[broker_id].address, broker_id in alive)
        for broker_id in sorted(group.replicas)
    ]
    return SyncState(
        group.master,
        group.address_of(group.master),
        group.master_epoch,
        group.sync_set_epoch,
        tuple(member for member in members if member.broker_id in group.sync_set),
        tuple(member for member in members if member.broker_id not in group.sync_set),
    )


def _ids(text: str) -> frozenset[int] | None:
    """Return the ids of `1;2`; None when there are none."""
    if not text.strip():
        return None
    parts = text.split(";")
    if not all(part.isascii() and part.isdigit() and len(part) < 20 for part in parts):
        remark = "Please set the option <brokerControllerIdsToClean> according to the format: ids, joined with ;"
        raise Rejected(ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA, remark)
    return frozenset(map(int, parts))
