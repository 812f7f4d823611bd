"""Requests of administrators: controllers, members of groups, cleaning, health; settings, read and changed remotely.

Source: Java ControllerRequestProcessor, DLedgerController, ReplicasInfoManager.
"""

from __future__ import annotations

import asyncio
import logging

import orjson

from orbitmq.codes import ResponseCode
from orbitmq.controller.commands import CleanBrokers
from orbitmq.controller.config import ControllerConfig
from orbitmq.controller.liveness import BrokerKey
from orbitmq.controller.service import ControllerService
from orbitmq.controller.values import Group, Living
from orbitmq.errors import ConfigError, Rejected
from orbitmq.files import replace_file
from orbitmq.net.dispatch.handlers import Call, Handlers, Later, Reply
from orbitmq.wire.bodies.controller import Member, SyncState, decode_broker_names, encode_sync_states
from orbitmq.wire.headers import (
    CleanBrokerData,
    GetControllerConfig,
    GetControllerMetadata,
    GetControllerMetadataResponse,
    GetHealth,
    GetSyncStates,
    UpdateControllerConfig,
)

handlers: Handlers[ControllerService] = Handlers()


@handlers.on(GetControllerMetadata)
def get_metadata(service: ControllerService, call: Call[GetControllerMetadata]) -> Reply:
    """Tell which controllers there are, and which one leads; every one of them does."""
    leader_id, peers = service.consensus.leader_id, service.consensus.peers
    names = dict(zip(sorted(peers), service.config.peers, strict=True))
    answer = GetControllerMetadataResponse(
        group=service.config.controller_d_leger_group,
        controller_leader_id=names.get(leader_id) if leader_id is not None else None,
        controller_leader_address=peers.get(leader_id) if leader_id is not None else None,
        is_leader=service.consensus.is_leader,
        peers="".join(f"{names[node]}:{peers[node]};" for node in sorted(peers)),
    )
    return Reply(header=answer)


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
            living=service.living(before) if before is not None else Living(),
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


def sync_state(service: ControllerService, group: Group) -> SyncState:
    """Return the members of a group, in and out of its sync set."""
    alive = service.living(group).alive
    members = [
        Member(group.name, broker_id, group.replicas[broker_id].address, broker_id in alive)
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


log = logging.getLogger(__name__)


CHANGEABLE = frozenset(
    [
        "scanNotActiveBrokerInterval",
        "scanInactiveMasterInterval",
        "enableElectUncleanMaster",
        "notifyBrokerRoleChanged",
    ]
)
"""Every key that a request may change."""
PROPERTIES_SIZE_MAX = 8 * 1024


@handlers.on(UpdateControllerConfig, body_size_max=PROPERTIES_SIZE_MAX)
def update_config(service: ControllerService, call: Call[UpdateControllerConfig]) -> Later:
    """Save settings and change them; one forbidden key refuses the whole request. Answered when they count."""
    properties = _parse(call.command.body)
    config = service.config
    forbidden = (set(config.to_properties()) | {"rocketmqHome"}) - CHANGEABLE
    forbidden |= {key.strip() for key in config.config_black_list.split(";")}
    if forbidden & properties.keys():
        raise Rejected(ResponseCode.NO_PERMISSION, "Can not update config in black list.")
    known = {key: text for key, text in properties.items() if key in CHANGEABLE}
    if ignored := properties.keys() - known.keys():
        log.info("%s sent %d settings that have no effect", call.connection.remote, len(ignored))

    async def answer() -> Reply:
        async with service.config_lock:
            try:
                changed = service.config.changed_by(known)
                await asyncio.to_thread(_save, changed)
            except (ConfigError, OSError) as error:
                raise Rejected(ResponseCode.SYSTEM_ERROR, str(error)) from None
            service.reconfigure(changed)
        log.info("%s changed the settings %s", call.connection.remote, known)
        return Reply()

    return service.answer(call, answer() if known else _nothing())


@handlers.on(GetControllerConfig)
def get_config(service: ControllerService, call: Call[GetControllerConfig]) -> Reply:
    """List the settings in use."""
    properties = service.config.to_properties()
    return Reply(body="".join(f"{key}={value}\n" for key, value in properties.items()).encode())


async def _nothing() -> Reply:
    return Reply()


def _save(config: ControllerConfig) -> None:
    import javaproperties  # it loads an XML parser: only who changes settings pays

    config.config_store_path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(config.config_store_path, javaproperties.dumps(config.to_properties()).encode())


def _parse(body: bytes) -> dict[str, str]:
    import javaproperties

    try:
        return dict(javaproperties.loads(body.decode()))
    except ValueError:
        raise Rejected(ResponseCode.SYSTEM_ERROR, "string2Properties error") from None
