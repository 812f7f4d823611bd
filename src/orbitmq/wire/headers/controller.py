"""Requests of brokers and administrators to a controller, a controller's to brokers, and the answers.

Source: Java org.apache.rocketmq.remoting.protocol.header.controller.
"""

from __future__ import annotations

from orbitmq.codes import RequestCode
from orbitmq.wire.header import Int32, header, request

__all__ = [
    "AlterSyncStateSet",
    "AlterSyncStateSetResponse",
    "ApplyBrokerId",
    "ApplyBrokerIdResponse",
    "CleanBrokerData",
    "ElectMaster",
    "ElectMasterResponse",
    "GetBrokerEpochs",
    "GetControllerConfig",
    "GetControllerMetadata",
    "GetControllerMetadataResponse",
    "GetNextBrokerId",
    "GetNextBrokerIdResponse",
    "GetReplicaInfo",
    "GetReplicaInfoResponse",
    "GetSyncStates",
    "NotifyBrokerRoleChanged",
    "RaftMessages",
    "RegisterBrokerToController",
    "RegisterBrokerToControllerResponse",
    "UpdateControllerConfig",
]


@request(RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET)
class AlterSyncStateSet:
    """A master proposes another sync set; it is in the body, with the epoch of the set that it replaces."""

    broker_name: str
    master_broker_id: int
    master_epoch: Int32
    invoke_time: int | None = None


@header
class AlterSyncStateSetResponse:
    """The epoch of the new set, which is in the body."""

    new_sync_state_set_epoch: Int32


@request(RequestCode.CONTROLLER_ELECT_MASTER)
class ElectMaster:
    """A broker asks for the master, or to become it; with `designate_elect` an administrator chooses it."""

    cluster_name: str = ""
    broker_name: str = ""
    broker_id: int = -1
    designate_elect: bool = False
    invoke_time: int | None = None


@header
class ElectMasterResponse:
    """The master, new or as before."""

    master_broker_id: int | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None


@request(RequestCode.CONTROLLER_REGISTER_BROKER)
class RegisterBrokerToController:
    """A member tells its address."""

    cluster_name: str
    broker_name: str
    broker_id: int
    broker_address: str
    invoke_time: int | None = None


@header
class RegisterBrokerToControllerResponse:
    """The master, where one is alive."""

    cluster_name: str
    broker_name: str
    master_broker_id: int | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None


@request(RequestCode.CONTROLLER_GET_REPLICA_INFO)
class GetReplicaInfo:
    """A broker asks for the master of its group."""

    broker_name: str


@header
class GetReplicaInfoResponse:
    """The master, and the epoch that began when it last changed."""

    master_broker_id: int | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None


@request(RequestCode.CONTROLLER_GET_METADATA_INFO)
class GetControllerMetadata:
    """Which controllers there are, and which one leads."""


@header
class GetControllerMetadataResponse:
    """The controllers as `n0:host:port;n1:host:port;`."""

    group: str | None = None
    controller_leader_id: str | None = None
    controller_leader_address: str | None = None
    is_leader: bool = False
    peers: str | None = None


@request(RequestCode.CONTROLLER_GET_SYNC_STATE_DATA)
class GetSyncStates:
    """The members of some groups, whose names are in the body."""


@request(RequestCode.GET_BROKER_EPOCH_CACHE)
class GetBrokerEpochs:
    """Ask a broker in which epochs its log was written."""


@request(RequestCode.NOTIFY_BROKER_ROLE_CHANGED)
class NotifyBrokerRoleChanged:
    """A controller tells the members of a group their master; the sync set is in the body."""

    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None
    master_broker_id: int | None = None


@request(RequestCode.UPDATE_CONTROLLER_CONFIG)
class UpdateControllerConfig:
    """Change settings; the body is Java properties text."""


@request(RequestCode.GET_CONTROLLER_CONFIG)
class GetControllerConfig:
    """All settings as Java properties text."""


@request(RequestCode.CLEAN_BROKER_DATA)
class CleanBrokerData:
    """Remove members (`1;2`), or without ids the whole group."""

    broker_name: str
    cluster_name: str | None = None
    broker_controller_ids_to_clean: str | None = None
    is_clean_living_broker: bool = False
    invoke_time: int | None = None


@request(RequestCode.ORBITMQ_RAFT)
class RaftMessages:
    """Messages of Raft from one controller to another, in the body; ours.

    Args:
        group: controllerDLegerGroup.
        sender: the name of the controller that sends.
        controllers: its list of all of them, `name-host:port`, sorted by name: both have to have the same.
        disk: the name that its disk got when it was made.
        receiver_disk: the disk that the sender knows of the receiver; None: it has met none, or is of an earlier version.
    """

    group: str
    sender: str
    controllers: str
    disk: str
    receiver_disk: str | None = None


@request(RequestCode.CONTROLLER_GET_NEXT_BROKER_ID)
class GetNextBrokerId:
    """A new broker asks which id it may take."""

    cluster_name: str
    broker_name: str


@header
class GetNextBrokerIdResponse:
    """The id that the next member gets."""

    cluster_name: str
    broker_name: str
    next_broker_id: int


@request(RequestCode.CONTROLLER_APPLY_BROKER_ID)
class ApplyBrokerId:
    """A new broker takes an id; `register_check_code` is `host:port;millis`, its own for ever."""

    cluster_name: str
    broker_name: str
    applied_broker_id: int
    register_check_code: str


@header
class ApplyBrokerIdResponse:
    """The group that the id is of."""

    cluster_name: str
    broker_name: str
