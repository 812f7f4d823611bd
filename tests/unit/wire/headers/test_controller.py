"""Fields of the headers of controllers."""

from typing import Any

from cases import each_case
from orbitmq.wire import headers
from unit.wire.headers.support import travels_as

GROUP = {"clusterName": "c", "brokerName": "b"}
NAMES: Any = {"cluster_name": "c", "broker_name": "b"}
MASTER = {"masterBrokerId": "1", "masterAddress": "a:1", "masterEpoch": "2"}
LED: Any = {"master_broker_id": 1, "master_address": "a:1", "master_epoch": 2}


@each_case(
    (
        headers.AlterSyncStateSet(broker_name="b", master_broker_id=1, master_epoch=2, invoke_time=3),
        {"brokerName": "b", "masterBrokerId": "1", "masterEpoch": "2", "invokeTime": "3"},
    ),
    (headers.AlterSyncStateSetResponse(new_sync_state_set_epoch=1), {"newSyncStateSetEpoch": "1"}),
    (
        headers.ElectMaster(**NAMES, broker_id=1, designate_elect=True, invoke_time=3),
        {**GROUP, "brokerId": "1", "designateElect": "true", "invokeTime": "3"},
    ),
    (headers.ElectMasterResponse(**LED, sync_state_set_epoch=5), {**MASTER, "syncStateSetEpoch": "5"}),
    (
        headers.RegisterBrokerToController(**NAMES, broker_id=1, broker_address="a:1", invoke_time=0),
        {**GROUP, "brokerId": "1", "brokerAddress": "a:1", "invokeTime": "0"},
    ),
    (
        headers.RegisterBrokerToControllerResponse(**NAMES, **LED, sync_state_set_epoch=5),
        {**GROUP, **MASTER, "syncStateSetEpoch": "5"},
    ),
    (headers.GetReplicaInfo(broker_name="b"), {"brokerName": "b"}),
    (headers.GetReplicaInfoResponse(**LED), MASTER),
    (headers.GetControllerMetadata(), {}),
    (
        headers.GetControllerMetadataResponse(
            group="g", controller_leader_id="n0", controller_leader_address="a:1", is_leader=True, peers="n0:a:1;"
        ),
        {
            "group": "g",
            "controllerLeaderId": "n0",
            "controllerLeaderAddress": "a:1",
            "isLeader": "true",
            "peers": "n0:a:1;",
        },
    ),
    (headers.GetSyncStates(), {}),
    (headers.GetBrokerEpochs(), {}),
    (headers.NotifyBrokerRoleChanged(**LED, sync_state_set_epoch=5), {**MASTER, "syncStateSetEpoch": "5"}),
    (headers.UpdateControllerConfig(), {}),
    (headers.GetControllerConfig(), {}),
    (
        headers.CleanBrokerData(
            **NAMES, broker_controller_ids_to_clean="1;2", is_clean_living_broker=True, invoke_time=3
        ),
        {**GROUP, "brokerControllerIdsToClean": "1;2", "isCleanLivingBroker": "true", "invokeTime": "3"},
    ),
    (headers.GetNextBrokerId(**NAMES), GROUP),
    (headers.GetNextBrokerIdResponse(**NAMES, next_broker_id=3), {**GROUP, "nextBrokerId": "3"}),
    (
        headers.ApplyBrokerId(**NAMES, applied_broker_id=3, register_check_code="a:1;5"),
        {**GROUP, "appliedBrokerId": "3", "registerCheckCode": "a:1;5"},
    ),
    (headers.ApplyBrokerIdResponse(**NAMES), GROUP),
)
def test_fields_travel_under_javas_names(header: Any, fields: dict[str, str]) -> None:
    assert travels_as(header, fields)


def test_an_election_without_a_candidate_is_the_controllers_own() -> None:
    assert headers.ElectMaster(broker_name="b").broker_id == -1
