"""Bodies of controllers' requests and answers: sync sets, elections, the members of groups, the epochs of a log.

Source: Java SyncStateSet, ElectMasterResponseBody, BrokerReplicasInfo, EpochEntryCache. Fields whose value is null are
left out there, and so they are here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from orbitmq.errors import HeaderError
from orbitmq.wire import fastjson
from orbitmq.wire.bodies.document import DOCUMENT_SIZE_MAX, flag, int32, items, number, parse_body, text

NAMES_MAX = 10_000
"""Groups that one request may ask for."""


class SyncSet(NamedTuple):
    """The members of a group that have all that was confirmed, and how often that has changed."""

    ids: frozenset[int]
    epoch: int


class BrokerMember(NamedTuple):
    """One broker of a group, as its controller sees it."""

    broker_name: str
    broker_id: int
    address: str
    is_alive: bool


class SyncState(NamedTuple):
    """The members of one group, in and out of its sync set. Without a master, its id and address are None."""

    master: int | None
    master_address: str | None
    master_epoch: int
    sync_set_epoch: int
    in_sync: tuple[BrokerMember, ...]
    not_in_sync: tuple[BrokerMember, ...]


class Epoch(NamedTuple):
    """A part of a log that one master has written; `end_offset` is open in the last one."""

    epoch: int
    start_offset: int
    end_offset: int = 2**63 - 1


class BrokerEpochs(NamedTuple):
    """The parts of a broker's log, in order; offsets in bytes."""

    cluster: str
    broker_name: str
    broker_id: int
    epochs: tuple[Epoch, ...]
    max_offset: int


def encode_sync_set(sync_set: SyncSet) -> bytes:
    """Encode a SyncStateSet."""
    return orjson.dumps({"syncStateSet": sorted(sync_set.ids), "syncStateSetEpoch": sync_set.epoch})


def decode_sync_set(body: bytes, *, size_max: int = DOCUMENT_SIZE_MAX) -> SyncSet:
    """Decode a SyncStateSet.

    Raises:
        HeaderError: the body is none.
    """

    def parse(document: dict[str, Any]) -> SyncSet:
        return SyncSet(frozenset(map(number, items(document["syncStateSet"]))), int32(document["syncStateSetEpoch"]))

    return parse_body("SyncStateSet", body, parse, size_max=size_max)


def encode_election(sync_set: Collection[int], group: tuple[str, str, Mapping[int, str]] | None) -> bytes:
    """Encode an ElectMasterResponseBody.

    Args:
        group: cluster, broker name and addresses by id; None when the master is as before.
    """
    document: dict[str, Any] = {"syncStateSet": sorted(sync_set)}
    if group is not None:
        cluster, broker_name, addresses = group
        members = {broker_id: addresses[broker_id] for broker_id in sorted(addresses)}
        member_group = {"brokerAddrs": members, "brokerName": broker_name, "cluster": cluster}
        document = {"brokerMemberGroup": member_group, **document}
    return fastjson.dumps_loose(document)


def encode_broker_names(names: Collection[str]) -> bytes:
    """Encode the groups that are asked for."""
    return orjson.dumps(list(names))


def decode_broker_names(body: bytes) -> list[str]:
    """Decode the groups that are asked for; none for no body.

    Raises:
        HeaderError: not a list of not too many texts.
    """
    try:
        names = orjson.loads(body) if body else []
        if not isinstance(names, list) or len(names) > NAMES_MAX:
            raise ValueError(f"a list of at most {NAMES_MAX} names is expected")
        return [text(name) for name in names]
    except (TypeError, ValueError) as error:
        raise HeaderError(f"broker names: {error}") from None


def encode_sync_states(states: Mapping[str, SyncState]) -> bytes:
    """Encode a BrokerReplicasInfo."""
    return orjson.dumps({"replicasInfoTable": {name: _sync_state(state) for name, state in states.items()}})


def decode_sync_states(body: bytes) -> dict[str, SyncState]:
    """Decode a BrokerReplicasInfo.

    Raises:
        HeaderError: the body is none.
    """

    def member(item: dict[str, Any]) -> BrokerMember:
        alive = flag(item.get("alive"))
        return BrokerMember(text(item["brokerName"]), number(item["brokerId"]), text(item["brokerAddress"]), alive)

    def state(item: dict[str, Any]) -> SyncState:
        master = item.get("masterBrokerId")
        return SyncState(
            None if master is None else number(master),
            item.get("masterAddress"),
            int32(item["masterEpoch"]),
            int32(item["syncStateSetEpoch"]),
            tuple(map(member, items(item["inSyncReplicas"]))),
            tuple(map(member, items(item["notInSyncReplicas"]))),
        )

    def parse(document: dict[str, Any]) -> dict[str, SyncState]:
        return {name: state(item) for name, item in document["replicasInfoTable"].items()}

    return parse_body("BrokerReplicasInfo", body, parse)


def encode_epochs(epochs: BrokerEpochs) -> bytes:
    """Encode an EpochEntryCache."""
    return orjson.dumps(
        {
            "brokerId": epochs.broker_id,
            "brokerName": epochs.broker_name,
            "clusterName": epochs.cluster,
            "epochList": [
                {"endOffset": part.end_offset, "epoch": part.epoch, "startOffset": part.start_offset}
                for part in epochs.epochs
            ],
            "maxOffset": epochs.max_offset,
        }
    )


def decode_epochs(body: bytes) -> BrokerEpochs:
    """Decode an EpochEntryCache.

    Raises:
        HeaderError: the body is none.
    """

    def parse(document: dict[str, Any]) -> BrokerEpochs:
        parts = [
            Epoch(int32(item["epoch"]), number(item["startOffset"]), number(item["endOffset"]))
            for item in items(document["epochList"])
        ]
        return BrokerEpochs(
            text(document["clusterName"]),
            text(document["brokerName"]),
            number(document["brokerId"]),
            tuple(parts),
            number(document["maxOffset"]),
        )

    return parse_body("EpochEntryCache", body, parse)


def _sync_state(state: SyncState) -> dict[str, Any]:
    document = {
        "inSyncReplicas": _members(state.in_sync),
        "masterAddress": state.master_address,
        "masterBrokerId": state.master,
        "masterEpoch": state.master_epoch,
        "notInSyncReplicas": _members(state.not_in_sync),
        "syncStateSetEpoch": state.sync_set_epoch,
    }
    return {name: value for name, value in document.items() if value is not None}


def _members(members: Sequence[BrokerMember]) -> list[dict[str, Any]]:
    return [
        {
            "alive": member.is_alive,
            "brokerAddress": member.address,
            "brokerId": member.broker_id,
            "brokerName": member.broker_name,
        }
        for member in members
    ]
