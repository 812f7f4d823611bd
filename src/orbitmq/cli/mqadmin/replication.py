"""Masters and slaves, and their controllers: how far slaves are, sync sets, epochs of logs, settings, elections.

With -i a command is repeated.

Source: Java org.apache.rocketmq.tools.command.ha and .controller, GetBrokerEpochSubCommand, ResetMasterFlushOffsetSubCommand of 5.3.3.
"""

from __future__ import annotations

from typing import Any

from orbitmq.admin.cluster_clients import ClusterClients
from orbitmq.cli.mqadmin.parsing import Given
from orbitmq.cli.mqadmin.result import Result, settings_lines, table, time_text
from orbitmq.cli.mqadmin.targets import ask, cluster_brokers, given_brokers, one_setting, parse_settings
from orbitmq.errors import InvalidArgument
from orbitmq.wire.bodies.controller import (
    BrokerMember,
    decode_epochs,
    decode_sync_states,
    encode_broker_names,
)
from orbitmq.wire.bodies.document import parse_body
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import (
    CleanBrokerData,
    ElectMaster,
    ElectMasterResponse,
    GetBrokerEpochs,
    GetControllerConfig,
    GetControllerMetadata,
    GetControllerMetadataResponse,
    GetReplicationStatus,
    GetSyncStates,
    ResetMasterFlushOffset,
    UpdateControllerConfig,
)

_LAYOUT = "%-32s  %-16s %16s %16s %16s %16s"
_TITLES = "#SlaveAddr|#SlaveAckOffset|#Diff|#TransferSpeed(KB/s)|#Status|#TransferFromWhere"


async def ha_status(clients: ClusterClients, given: Given) -> Result:
    """Show which slaves follow a master, or a cluster's masters, and how far; of a slave its master."""
    lines: list[str] = []
    rows = []
    for address in await given_brokers(clients, given, with_slaves=False):
        document = parse_body("replication status", (await ask(clients, address, GetReplicationStatus())).body, dict)
        lines += _status_lines(address, document)
        rows.append({"address": address, **document})
    return Result(lines, rows)


def _status_lines(address: str, document: dict[str, Any]) -> list[str]:
    if not document.get("master"):
        client = document.get("haClientRuntimeInfo") or {}
        get = client.get
        return [
            "",
            f"#MasterAddr\t{get('masterAddr')}",
            f"#CommitLogMaxOffset\t{get('maxOffset', 0)}",
            f"#TransferSpeed(KB/s)\t{get('transferredByteInSecond', 0) / 1024:.2f}",
            f"#LastReadTime\t{time_text(get('lastReadTimestamp', 0))}",
            f"#LastWriteTime\t{time_text(get('lastWriteTimestamp', 0))}",
            f"#MasterFlushOffset\t{get('masterFlushOffset', 0)}",
        ]
    slaves = document.get("haConnectionInfo") or ()

    lines = ["", f"#MasterAddr\t{address}", f"#MasterCommitLogMaxOffset\t{document.get('masterCommitLogMaxOffset')}"]
    lines += [f"#SlaveNum\t{len(slaves)}", f"#InSyncSlaveNum\t{document.get('inSyncSlaveNums')}"]
    cells = (
        (
            slave["addr"],
            slave["slaveAckOffset"],
            slave["diff"],
            f"{slave.get('transferredByteInSecond', 0) / 1024:.2f}",
            "OK" if slave.get("inSync") else "Fall Behind",
            slave["transferFromWhere"],
        )
        for slave in slaves
    )
    lines += table(_LAYOUT, _TITLES, cells)
    return lines


async def get_sync_state_set(clients: ClusterClients, given: Given) -> Result:
    """Show the members of a broker name, or of a cluster's, in and out of their sync sets."""
    names = [given.text("brokerName")]
    if "brokerName" not in given:
        names = [data.broker_name for data in await cluster_brokers(clients, given)]
    address = given.text("controllerAddress").split(";")[0]
    body = (await ask(clients, await _leader_of(clients, address), GetSyncStates(), encode_broker_names(names))).body
    states = decode_sync_states(body) if body else {}
    lines: list[str] = []
    rows = []
    for name, state in states.items():
        lines += [
            "",
            f"#brokerName\t{name}",
            f"#MasterBrokerId\t{state.master}",
            f"#MasterAddr\t{state.master_address}",
        ]
        lines += [f"#MasterEpoch\t{state.master_epoch}", f"#SyncStateSetEpoch\t{state.sync_set_epoch}"]
        lines.append(f"#SyncStateSetNums\t{len(state.in_sync)}")
        for word, members in (("InSyncReplica", state.in_sync), ("NotInSyncReplica", state.not_in_sync)):
            for member in members:
                lines += ["", f"{word}:\t{_member_text(member)}"]
        shown = {"in_sync": [one._asdict() for one in state.in_sync]}
        shown |= {"not_in_sync": [one._asdict() for one in state.not_in_sync]}
        rows.append({"broker": name, **state._asdict(), **shown})
    missing = [f"the controller knows no broker {name}" for name in names if name not in states]
    return Result(lines, rows, missing)


async def _leader_of(clients: ClusterClients, address: str) -> str:
    """Return the controller that leads, as the one at an address tells."""
    return (await _metadata(clients, address)).controller_leader_address or address


async def _metadata(clients: ClusterClients, address: str) -> GetControllerMetadataResponse:
    answer = await ask(clients, address, GetControllerMetadata())
    return decode_header(GetControllerMetadataResponse, answer.ext_fields)


def _member_text(member: BrokerMember) -> str:
    return (
        f"ReplicaIdentity{{brokerName='{member.broker_name}', brokerId={member.broker_id}, "
        f"brokerAddress='{member.address}', alive={str(member.is_alive).lower()}}}"
    )


async def get_broker_epoch(clients: ClusterClients, given: Given) -> Result:
    """Show in which epochs the logs of a broker name's members, or of a cluster's, were written."""
    if "brokerName" in given:
        brokers = (await clients.admin.cluster_info()).brokers
        name = given.text("brokerName")
        if name not in brokers:
            raise InvalidArgument("--brokerName", name, f"one of {', '.join(sorted(brokers)) or 'none'}")
        found = [brokers[name]]
    else:
        found = await cluster_brokers(clients, given)
    lines: list[str] = []
    rows = []
    for data in found:
        for _, address in sorted(data.addresses.items()):
            told = decode_epochs((await ask(clients, address, GetBrokerEpochs())).body)
            epochs = [*told.epochs[:-1], *(one._replace(end_offset=told.max_offset) for one in told.epochs[-1:])]
            lines += ["", f"#clusterName\t{told.cluster}", f"#brokerName\t{told.broker_name}"]
            lines += [f"#brokerAddr\t{address}", f"#brokerId\t{told.broker_id}"]
            lines += [
                f"#Epoch: EpochEntry{{epoch={one.epoch}, startOffset={one.start_offset}, endOffset={one.end_offset}}}"
                for one in epochs
            ]
            rows.append({"address": address, **told._asdict(), "epochs": [one._asdict() for one in epochs]})
    return Result(lines, rows)


async def reset_master_flush_offset(clients: ClusterClients, given: Given) -> Result:
    """Tell a slave up to where its master's log is on the disk."""
    address, offset = given.text("brokerAddr"), given.number("offset", 0)
    for name in ("brokerAddr", "offset"):
        if not given.text(name):
            raise InvalidArgument(f"--{name}", "", "a value")
    await ask(clients, address, ResetMasterFlushOffset(master_flush_offset=offset))
    return Result([f"reset master flush offset to {offset} success"], {"address": address, "offset": offset})


def _addresses(given: Given) -> list[str]:
    return [part.strip() for part in given.text("controllerAddress").split(";") if part.strip()]


async def get_controller_meta_data(clients: ClusterClients, given: Given) -> Result:
    """Show the controllers, and which one leads."""
    found = await _metadata(clients, given.text("controllerAddress"))
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
    leader = await _leader_of(clients, _addresses(given)[0])
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
    await ask(clients, await _leader_of(clients, _addresses(given)[0]), header)
    return Result([f"clear broker {name} metadata from controller success!"], {"broker": name, "ids": ids})
