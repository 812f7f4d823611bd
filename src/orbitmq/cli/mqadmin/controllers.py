"""Controllers: which one leads, their settings, elections, and members that are gone.

Source: Java org.apache.rocketmq.tools.command.controller of 5.3.3.
"""

from __future__ import annotations

from orbitmq.admin.cluster_clients import ClusterClients
from orbitmq.cli.mqadmin.parsing import Given
from orbitmq.cli.mqadmin.replication import leader_of
from orbitmq.cli.mqadmin.result import Result, settings_lines
from orbitmq.cli.mqadmin.targets import ask, one_setting, parse_settings
from orbitmq.errors import InvalidArgument
from orbitmq.wire.bodies.document import parse_body
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import (
    CleanBrokerData,
    ElectMaster,
    ElectMasterResponse,
    GetControllerConfig,
    GetControllerMetadata,
    GetControllerMetadataResponse,
    UpdateControllerConfig,
)


def _addresses(given: Given) -> list[str]:
    return [part.strip() for part in given.text("controllerAddress").split(";") if part.strip()]


async def get_controller_meta_data(clients: ClusterClients, given: Given) -> Result:
    """Show the controllers, and which one leads."""
    answer = await ask(clients, given.text("controllerAddress"), GetControllerMetadata())
    found = decode_header(GetControllerMetadataResponse, answer.ext_fields)
    peers = [peer for peer in (found.peers or "").split(";") if peer]
    lines = [
        "",
        f"#ControllerGroup\t{found.group}",
        f"#ControllerLeaderId\t{found.controller_leader_id}",
        f"#ControllerLeaderAddress\t{found.controller_leader_address}",
        *(f"#Peer:\t{peer}" for peer in peers),
    ]
    document = {"group": found.group, "leader": found.controller_leader_id, "peers": peers}
    return Result(lines, document | {"leader_address": found.controller_leader_address})


async def get_controller_config(clients: ClusterClients, given: Given) -> Result:
    """Show the settings of controllers."""
    lines, rows = [], []
    for address in _addresses(given):
        settings = parse_settings((await ask(clients, address, GetControllerConfig())).body)
        lines += settings_lines(address, settings)
        rows.append({"controller": address, "settings": settings})
    return Result(lines, rows)


async def update_controller_config(clients: ClusterClients, given: Given) -> Result:
    """Change a setting of controllers."""
    key, value, body = given.text("key"), given.text("value"), one_setting(given)
    addresses = _addresses(given)
    for address in addresses:
        await ask(clients, address, UpdateControllerConfig(), body)
    lines = [f"update controller config success![{', '.join(addresses)}]", f"{key} : {value}"]
    return Result(lines, [{"controller": address, "key": key, "value": value} for address in addresses])


async def elect_master(clients: ClusterClients, given: Given) -> Result:
    """Let a member of a sync set become the master."""
    cluster, name = given.text("clusterName"), given.text("brokerName")
    header = ElectMaster(
        cluster_name=cluster, broker_name=name, broker_id=given.number("brokerId", 0), designate_elect=True
    )
    leader = await leader_of(clients, _addresses(given)[0])
    answer = await ask(clients, leader, header)
    found = decode_header(ElectMasterResponse, answer.ext_fields)
    lines = [
        "",
        f"#ClusterName\t{cluster}",
        f"#BrokerName\t{name}",
        f"#BrokerMasterAddr\t{found.master_address}",
        f"#MasterEpoch\t{found.master_epoch}",
        f"#SyncStateSetEpoch\t{found.sync_state_set_epoch}",
    ]
    document = parse_body("election", answer.body, dict) if answer.body else {}
    members = (document.get("brokerMemberGroup") or {}).get("brokerAddrs") or {}
    lines += [f"\t#Broker\t{broker_id}\t{address}" for broker_id, address in members.items()]
    row = {"cluster": cluster, "broker": name, "master": found.master_address, "epoch": found.master_epoch}
    return Result(lines, row | {"sync_set_epoch": found.sync_state_set_epoch, "members": dict(members)})


async def clean_broker_metadata(clients: ClusterClients, given: Given) -> Result:
    """Let controllers forget members of a broker name, or all of it; with -l those that are alive as well."""
    name, ids, cluster = given.text("brokerName"), given.text("brokerControllerIdsToClean"), given.text("clusterName")
    is_living = "cleanLivingBroker" in given
    if not is_living and not cluster:
        raise InvalidArgument("--clusterName", "", "a value: without --cleanLivingBroker it is needed")
    for part in filter(None, ids.split(";")):
        if not part.strip().isdecimal():
            raise InvalidArgument("--brokerControllerIdsToClean", ids, "ids of members, as 1;2")
    header = CleanBrokerData(
        broker_name=name,
        cluster_name=cluster or None,
        broker_controller_ids_to_clean=ids or None,
        is_clean_living_broker=is_living,
    )
    await ask(clients, await leader_of(clients, _addresses(given)[0]), header)
    return Result([f"clear broker {name} metadata from controller success!"], {"broker": name, "ids": ids})
